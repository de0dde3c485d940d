// A runtime function: asks `target(row, return address)` where this caller's call belongs, and jumps there with every
// argument register as the caller left it (none of the functions takes floating-point arguments).
.cfi_startproc
hint #34
stp x29, x30, [sp, #-96]!
.cfi_def_cfa_offset 96
.cfi_offset x29, -96
.cfi_offset x30, -88
mov x29, sp
stp x0, x1, [sp, #16]
stp x2, x3, [sp, #32]
stp x4, x5, [sp, #48]
stp x6, x7, [sp, #64]
str x8, [sp, #80]
mov x1, x30
mov w0, {row}
bl {target}
mov x16, x0
ldp x0, x1, [sp, #16]
ldp x2, x3, [sp, #32]
ldp x4, x5, [sp, #48]
ldp x6, x7, [sp, #64]
ldr x8, [sp, #80]
ldp x29, x30, [sp], #96
.cfi_restore x29
.cfi_restore x30
.cfi_def_cfa_offset 0
br x16
.cfi_endproc
