// A runtime function: asks `target(row, return address)` where this caller's call belongs, and jumps there with every
// argument register as the caller left it (none of the functions takes floating-point arguments).
.cfi_startproc
endbr64
push rdi
.cfi_adjust_cfa_offset 8
push rsi
.cfi_adjust_cfa_offset 8
push rdx
.cfi_adjust_cfa_offset 8
push rcx
.cfi_adjust_cfa_offset 8
push r8
.cfi_adjust_cfa_offset 8
push r9
.cfi_adjust_cfa_offset 8
sub rsp, 8
.cfi_adjust_cfa_offset 8
mov rsi, [rsp + 56]
mov edi, {row}
call {target}
add rsp, 8
.cfi_adjust_cfa_offset -8
pop r9
.cfi_adjust_cfa_offset -8
pop r8
.cfi_adjust_cfa_offset -8
pop rcx
.cfi_adjust_cfa_offset -8
pop rdx
.cfi_adjust_cfa_offset -8
pop rsi
.cfi_adjust_cfa_offset -8
pop rdi
.cfi_adjust_cfa_offset -8
jmp rax
.cfi_endproc
