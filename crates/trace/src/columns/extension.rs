//! Records whose value carries its own length, so that readers who do not know the kind can step over it.

use super::put::{put_varint, zigzag};
use super::take::{Cursor, unzigzag};
use super::{Damage, kind};
use crate::record::{Code, Cost, CostKind, Deed, DeedKind, HostMemory, Other, Record, Sample};
use crate::told::{LogLine, Phase, PhaseName, PhaseWhat};

fn put_text(to: &mut Vec<u8>, text: &str) {
    put_varint(to, text.len() as u64);
    to.extend_from_slice(text.as_bytes());
}

fn put_optional(to: &mut Vec<u8>, value: Option<u64>) {
    put_varint(to, value.map_or(0, |value| value.saturating_add(1)));
}

/// Appends the record's value; its kind. `None` (and nothing is appended) for records of the kinds below 128.
pub fn encode(record: &Record, to: &mut Vec<u8>) -> Option<u8> {
    Some(match record {
        Record::Code(code) => {
            put_varint(to, u64::from(code.id));
            put_varint(to, u64::from(code.first_line));
            put_text(to, &code.file);
            put_text(to, &code.name);
            kind::CODE
        }
        Record::PythonFrame { id, code, line } => {
            for number in [id, code, line] {
                put_varint(to, u64::from(*number));
            }
            kind::PYTHON_FRAME
        }
        Record::LeftOut { id, frames } => {
            put_varint(to, u64::from(*id));
            put_varint(to, *frames);
            kind::LEFT_OUT
        }
        Record::HostMemory(host) => {
            put_varint(to, host.time_ns);
            put_varint(to, u64::from(host.thread));
            for bytes in [
                host.total,
                host.available,
                host.address_space,
                host.address_space_limit,
                host.locked,
                host.locked_limit,
                host.group,
                host.group_limit,
            ] {
                put_optional(to, bytes);
            }
            kind::HOST_MEMORY
        }
        Record::Cost(cost) => {
            for number in [
                cost.time_ns,
                u64::from(cost.thread),
                u64::from(cost.device),
                u64::from(cost.call),
                u64::from(cost.stack),
                cost.kind as u64,
                zigzag(cost.bytes),
                u64::from(cost.estimated),
            ] {
                put_varint(to, number);
            }
            kind::COST
        }
        Record::Sample(sample) => {
            put_varint(to, sample.time_ns);
            put_varint(to, u64::from(sample.device));
            put_varint(to, sample.used);
            put_varint(to, sample.total);
            put_optional(to, sample.process);
            let flags = u64::from(sample.others_known) | u64::from(sample.is_quiet) << 1;
            put_varint(to, flags);
            put_varint(to, sample.others.len() as u64);
            for other in &sample.others {
                put_varint(to, u64::from(other.pid));
                put_optional(to, other.bytes);
                put_text(to, &other.name);
            }
            kind::SAMPLE
        }
        Record::Deed(deed) => {
            put_varint(to, deed.time_ns);
            put_varint(to, u64::from(deed.thread));
            put_optional(to, deed.device.map(u64::from));
            for number in [
                u64::from(deed.call),
                u64::from(deed.stack),
                deed.kind.map_or(0, |kind| kind as u64),
                deed.subject,
                deed.value,
                deed.other,
            ] {
                put_varint(to, number);
            }
            kind::DEED
        }
        Record::PhaseName(name) => {
            put_varint(to, u64::from(name.id));
            put_text(to, &name.domain);
            put_text(to, &name.name);
            kind::PHASE_NAME
        }
        Record::Phase(phase) => {
            put_varint(to, phase.time_ns);
            put_varint(to, u64::from(phase.thread));
            let (what, name, number) = match phase.what {
                PhaseWhat::Push { name, domain } => (1, name, u64::from(domain)),
                PhaseWhat::Pop { domain } => (2, 0, u64::from(domain)),
                PhaseWhat::Start { name, range } => (3, name, range),
                PhaseWhat::End { range } => (4, 0, range),
                PhaseWhat::Mark { name } => (5, name, 0),
            };
            put_varint(to, what);
            put_varint(to, u64::from(name));
            put_varint(to, number);
            kind::PHASE
        }
        Record::LogLine(line) => {
            put_varint(to, line.time_ns);
            put_varint(to, u64::from(line.thread));
            put_varint(to, u64::from(line.stream));
            put_varint(to, u64::from(line.late));
            put_text(to, &line.text);
            kind::LOG_LINE
        }
        _ => return None,
    })
}

fn small(value: &mut Cursor<'_>) -> Result<u32, Damage> {
    u32::try_from(value.varint()?).map_err(|_| "a number is out of range")
}

fn tiny<T: TryFrom<u64>>(value: &mut Cursor<'_>) -> Result<T, Damage> {
    T::try_from(value.varint()?).map_err(|_| "a number is out of range")
}

fn text(value: &mut Cursor<'_>) -> Result<String, Damage> {
    Ok(String::from_utf8_lossy(value.bytes()?).into_owned())
}

fn optional(value: &mut Cursor<'_>) -> Result<Option<u64>, Damage> {
    Ok(value.varint()?.checked_sub(1))
}

/// The record of such a value; `None` if the kind is not known.
pub fn decode(kind: u8, mut value: Cursor<'_>) -> Result<Option<Record>, Damage> {
    let value = &mut value;
    Ok(Some(match kind {
        kind::CODE => Record::Code(Code {
            id: small(value)?,
            first_line: small(value)?,
            file: text(value)?,
            name: text(value)?,
        }),
        kind::PYTHON_FRAME => Record::PythonFrame {
            id: small(value)?,
            code: small(value)?,
            line: small(value)?,
        },
        kind::LEFT_OUT => Record::LeftOut {
            id: small(value)?,
            frames: value.varint()?,
        },
        kind::HOST_MEMORY => Record::HostMemory(HostMemory {
            time_ns: value.varint()?,
            thread: small(value)?,
            total: optional(value)?,
            available: optional(value)?,
            address_space: optional(value)?,
            address_space_limit: optional(value)?,
            locked: optional(value)?,
            locked_limit: optional(value)?,
            group: optional(value)?,
            group_limit: optional(value)?,
        }),
        kind::COST => Record::Cost(Cost {
            time_ns: value.varint()?,
            thread: small(value)?,
            device: tiny(value)?,
            call: tiny(value)?,
            stack: small(value)?,
            // A kind of a later version counts all the same.
            kind: CostKind::from_wire(value.varint()?).unwrap_or(CostKind::Other),
            bytes: unzigzag(value.varint()?),
            estimated: value.varint()? != 0,
        }),
        kind::SAMPLE => Record::Sample(sample(value)?),
        kind::PHASE_NAME => Record::PhaseName(PhaseName {
            id: small(value)?,
            domain: text(value)?,
            name: text(value)?,
        }),
        kind::PHASE => match phase(value)? {
            Some(phase) => Record::Phase(phase),
            None => return Ok(None),
        },
        kind::LOG_LINE => Record::LogLine(LogLine {
            time_ns: value.varint()?,
            thread: small(value)?,
            stream: tiny(value)?,
            late: value.varint()? != 0,
            text: text(value)?,
        }),
        kind::DEED => Record::Deed(Deed {
            time_ns: value.varint()?,
            thread: small(value)?,
            device: optional(value)?.and_then(|device| u8::try_from(device).ok()),
            call: tiny(value)?,
            stack: small(value)?,
            kind: DeedKind::from_wire(value.varint()?),
            subject: value.varint()?,
            value: value.varint()?,
            other: value.varint()?,
        }),
        _ => return Ok(None),
    }))
}

/// `None`: a border of a later version.
fn phase(value: &mut Cursor<'_>) -> Result<Option<Phase>, Damage> {
    let time_ns = value.varint()?;
    let thread = small(value)?;
    let what = value.varint()?;
    let name = small(value)?;
    let number = value.varint()?;
    let domain = || u32::try_from(number).map_err(|_| "a number is out of range");
    let what = match what {
        1 => PhaseWhat::Push {
            name,
            domain: domain()?,
        },
        2 => PhaseWhat::Pop { domain: domain()? },
        3 => PhaseWhat::Start {
            name,
            range: number,
        },
        4 => PhaseWhat::End { range: number },
        5 => PhaseWhat::Mark { name },
        _ => return Ok(None),
    };
    Ok(Some(Phase {
        time_ns,
        thread,
        what,
    }))
}

fn sample(value: &mut Cursor<'_>) -> Result<Sample, Damage> {
    let mut sample = Sample {
        time_ns: value.varint()?,
        device: tiny(value)?,
        used: value.varint()?,
        total: value.varint()?,
        process: optional(value)?,
        ..Sample::default()
    };
    let flags = value.varint()?;
    sample.others_known = flags & 1 != 0;
    sample.is_quiet = flags & 2 != 0;
    for _ in 0..value.varint()? {
        // Each takes three bytes at least, so that an absurd count ends with the value.
        sample.others.push(Other {
            pid: small(value)?,
            bytes: optional(value)?,
            name: text(value)?,
        });
    }
    Ok(sample)
}
