// dlsym(handle: rdi, name: rsi): asks `decide`, then answers or jumps on with everything as the caller left it.
.cfi_startproc
endbr64
push rdi
.cfi_adjust_cfa_offset 8
push rsi
.cfi_adjust_cfa_offset 8
sub rsp, 8
.cfi_adjust_cfa_offset 8
call {decide}
add rsp, 8
.cfi_adjust_cfa_offset -8
pop rsi
.cfi_adjust_cfa_offset -8
pop rdi
.cfi_adjust_cfa_offset -8
test rdx, rdx
jne 2f
jmp qword ptr [rip + {real}]
2:
ret
.cfi_endproc
