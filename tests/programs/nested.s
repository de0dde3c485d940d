# Debug information that no compiler makes: functions inlined into each other without end, and one that is its own origin.
    .text
    .globl deep, circular
    .type deep, @function
    .type circular, @function
deep:
    .fill 16, 1, 0x90
    .size deep, 16
circular:
    .fill 16, 1, 0x90
    .size circular, 16

    .section .debug_abbrev, "", @progbits
    .uleb128 1, 0x11, 1, 0x11, 1, 0x12, 7, 0, 0 # unit: low_pc, high_pc
    .uleb128 2, 0x2e, 1, 0x11, 1, 0x12, 7, 0, 0 # function: low_pc, high_pc
    .uleb128 3, 0x1d, 1, 0, 0                   # inlined function
    .uleb128 4, 0x2e, 0, 0x11, 1, 0x12, 7, 0x31, 0x13, 0, 0 # function: low_pc, high_pc, abstract_origin
    .uleb128 0

    .section .debug_info, "", @progbits
unit:
    .4byte end - version
version:
    .2byte 4
    .4byte 0
    .byte 8
    .uleb128 1
    .8byte deep, 32
itself:
    .uleb128 4
    .8byte circular, 16
    .4byte itself - unit
    .uleb128 2
    .8byte deep, 16
    .fill DEPTH, 1, 3
    .fill DEPTH, 1, 0
    .byte 0, 0
end:
