//! What the process was told differently from what is so: a smaller device, a failure by order.

use crate::assemble::Facts;
use crate::capacity::{Capacity, settings};
use crate::schema::{Device, ProcessEnd, Report};
use crate::sentences;
use oomhook_ledger::Ledger;
use oomhook_trace::Header;

/// The capacities of a process, if any were pretended.
pub(crate) fn capacity(header: &Header) -> Option<Capacity> {
    let text = header.settings.get(settings::CAPACITY)?;
    Capacity::parse(text).ok()
}

/// Lets the devices look as the process saw them, and keeps what they have.
pub(crate) fn apply(capacity: Option<&Capacity>, devices: &mut [Device]) {
    for device in devices {
        let number = device.device.and_then(|number| u8::try_from(number).ok());
        let Some(bytes) = number.zip(capacity).and_then(|(number, to)| to.of(number)) else {
            continue;
        };
        if device.total_bytes > bytes {
            device.real_total_bytes = Some(device.total_bytes);
            device.total_bytes = bytes;
        }
    }
}

/// Says so.
pub(crate) fn notes(
    header: &Header,
    capacity: Option<&Capacity>,
    report: &Report,
    ledger: &Ledger,
    facts: &Facts,
) -> Vec<String> {
    let mut notes = Vec::new();
    for device in &report.devices {
        let Some(number) = device.device else {
            continue;
        };
        let wanted = u8::try_from(number).ok().zip(capacity);
        let wanted = wanted.and_then(|(number, to)| to.of(number));
        match (wanted, device.real_total_bytes) {
            (Some(wanted), Some(real)) => notes.push(sentences::pretended(number, wanted, real)),
            (Some(wanted), None) if device.total_bytes > 0 => {
                notes.push(sentences::nothing_pretended(
                    number,
                    wanted,
                    device.total_bytes,
                ));
            }
            _ => {}
        }
    }
    let ended = facts.complete && report.process.end != ProcessEnd::Unfinished;
    if let Some(ordered) = header.settings.get(settings::FAIL_NTH)
        && ended
        && !failed_by_order(ledger)
    {
        notes.push(sentences::none_made_to_fail(ordered));
    }
    notes
}

/// True if an allocation was made to fail.
pub(crate) fn failed_by_order(ledger: &Ledger) -> bool {
    let mut notes = ledger.notes().iter();
    notes.any(|note| sentences::says_made_to_fail(note))
}
