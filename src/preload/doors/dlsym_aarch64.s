// dlsym(handle: x0, name: x1): asks `decide`, then answers or jumps on with everything as the caller left it.
.cfi_startproc
hint #34
stp x29, x30, [sp, #-32]!
.cfi_def_cfa_offset 32
.cfi_offset x29, -32
.cfi_offset x30, -24
mov x29, sp
stp x0, x1, [sp, #16]
bl {decide}
mov x16, x0
mov x17, x1
ldp x0, x1, [sp, #16]
ldp x29, x30, [sp], #32
.cfi_restore x29
.cfi_restore x30
.cfi_def_cfa_offset 0
cbnz x17, 2f
adrp x16, {real}
ldr x16, [x16, :lo12:{real}]
br x16
2:
mov x0, x16
ret
.cfi_endproc
