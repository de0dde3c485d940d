//! DWARF expressions of unwind rules, worked out as far as they can be before the registers are known: at one address,
//! the program counter is a constant.

use super::rule::Kind;
use gimli::{EndianSlice, Expression, NativeEndian, Operation, X86_64};

/// What an expression comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// A number.
    Number(u64),
    /// A register plus an offset.
    Register(Base, i64),
    /// What stands at a register plus an offset.
    At(Base, i64),
}

/// The registers that the walk knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    /// The stack pointer.
    Stack,
    /// The frame pointer.
    Frame,
}

impl Base {
    /// The register of this number, if the walk knows it.
    pub fn of(register: gimli::Register) -> Option<Base> {
        match register {
            X86_64::RSP => Some(Base::Stack),
            X86_64::RBP => Some(Base::Frame),
            _ => None,
        }
    }

    /// The rule that adds an offset to it.
    pub fn kind(self) -> Kind {
        match self {
            Base::Stack => Kind::Stack,
            Base::Frame => Kind::Base,
        }
    }
}

/// Works out an expression at an address; `None` if it takes more than we know.
pub fn evaluate(
    expression: Expression<EndianSlice<'_, NativeEndian>>,
    encoding: gimli::Encoding,
    pc: u64,
) -> Option<Value> {
    // The longest in use, the procedure linkage table's, needs three.
    let mut stack = [Value::Number(0); 8];
    let mut depth = 0;
    let mut operations = expression.operations(encoding);
    while let Some(operation) = operations.next().ok()? {
        let pushed = match operation {
            Operation::RegisterOffset {
                register: X86_64::RA,
                offset,
                ..
            } => Value::Number(pc.wrapping_add_signed(offset)),
            Operation::RegisterOffset {
                register, offset, ..
            } => Value::Register(Base::of(register)?, offset),
            Operation::UnsignedConstant { value } => Value::Number(value),
            Operation::SignedConstant { value } => Value::Number(value as u64),
            Operation::PlusConstant { value } => {
                depth = usize::checked_sub(depth, 1)?;
                plus(stack[depth], Value::Number(value))?
            }
            Operation::Deref {
                space: false,
                size: 8,
                ..
            } => {
                depth = usize::checked_sub(depth, 1)?;
                match stack[depth] {
                    Value::Register(base, offset) => Value::At(base, offset),
                    _ => return None,
                }
            }
            Operation::Nop => continue,
            Operation::Plus | Operation::And | Operation::Ge | Operation::Shl => {
                depth = usize::checked_sub(depth, 2)?;
                binary(&operation, stack[depth], stack[depth + 1])?
            }
            _ => return None,
        };
        *stack.get_mut(depth)? = pushed;
        depth += 1;
    }
    depth.checked_sub(1).map(|top| stack[top])
}

fn plus(a: Value, b: Value) -> Option<Value> {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => Some(Value::Number(a.wrapping_add(b))),
        (Value::Register(base, offset), Value::Number(more))
        | (Value::Number(more), Value::Register(base, offset)) => {
            Some(Value::Register(base, offset.wrapping_add(more as i64)))
        }
        _ => None,
    }
}

fn binary(
    operation: &Operation<EndianSlice<'_, NativeEndian>>,
    a: Value,
    b: Value,
) -> Option<Value> {
    if matches!(operation, Operation::Plus) {
        return plus(a, b);
    }
    let (Value::Number(a), Value::Number(b)) = (a, b) else {
        return None;
    };
    Some(Value::Number(match operation {
        Operation::And => a & b,
        // Comparisons of DWARF are signed.
        Operation::Ge => u64::from(a as i64 >= b as i64),
        Operation::Shl => a.checked_shl(u32::try_from(b).ok()?)?,
        _ => return None,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENCODING: gimli::Encoding = gimli::Encoding {
        address_size: 8,
        format: gimli::Format::Dwarf32,
        version: 1,
    };

    fn value(bytes: &[u8], pc: u64) -> Option<Value> {
        evaluate(
            Expression(EndianSlice::new(bytes, NativeEndian)),
            ENCODING,
            pc,
        )
    }

    #[test]
    fn the_linkage_table_is_worked_out() {
        // breg7 (rsp) 8; breg16 (rip) 0; lit15; and; lit11; ge; lit3; shl; plus
        let table = [0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22];
        for low in 0..16 {
            let pushed = if low >= 11 { 8 } else { 0 };
            let expected = Value::Register(Base::Stack, 8 + pushed);
            assert_eq!(value(&table, 0x5555_0000 + low), Some(expected));
        }
    }

    #[test]
    fn the_realigned_stack_and_the_signal_frame_are_understood() {
        // breg6 (rbp) -8; deref
        assert_eq!(
            value(&[0x76, 0x78, 0x06], 1),
            Some(Value::At(Base::Frame, -8))
        );
        // breg7 (rsp) 160; deref
        assert_eq!(
            value(&[0x77, 0xa0, 0x01, 0x06], 1),
            Some(Value::At(Base::Stack, 160))
        );
    }

    #[test]
    fn nothing_else_is_guessed() {
        // breg3 (rbx) 0; two derefs; a lone plus; nothing; an unknown operation; a cut one
        let others: [&[u8]; 6] = [
            &[0x73, 0],
            &[0x77, 0, 0x06, 0x06],
            &[0x22],
            &[],
            &[0xff],
            &[0x77],
        ];
        for bytes in others {
            assert_eq!(value(bytes, 1), None, "{bytes:x?}");
        }
        let endless: Vec<u8> = std::iter::repeat_n(0x31, 100).collect();
        assert_eq!(value(&endless, 1), None, "more than fits");
    }
}
