//! Phases of the program, for people: the highest ones, and what each of their instances leaves behind.

use super::Page;
use super::label;
use crate::phases::keys::Phase;
use crate::schema::Report;
use crate::sentences as say;

/// Phases shown.
const MOST: usize = 3;

impl Page<'_> {
    /// The highest phases.
    pub(super) fn phases(&mut self, report: &Report) {
        // One layer for all of them: that which the peak was told of.
        let highest = report.devices.iter().max_by_key(|one| one.peak_bytes);
        let inside_cache = highest.and_then(super::cache::explains).is_some();
        let height = |phase: &Phase| match inside_cache {
            true => phase.tensors_peak_bytes.unwrap_or(0),
            false => phase.peak_bytes,
        };
        let mut phases: Vec<&Phase> = report
            .phases
            .iter()
            .filter(|phase| height(phase) > 0)
            .collect();
        if phases.is_empty() {
            return;
        }
        let left: fn(&Phase) -> u64 =
            |phase| phase.growth.iter().map(|one| one.bytes_per_mark).sum();
        phases.sort_by_key(|phase| {
            (
                std::cmp::Reverse(left(phase)),
                std::cmp::Reverse(height(phase)),
            )
        });
        let total = phases.len();
        phases.truncate(MOST);
        self.title(say::PHASES, &say::phases_of(total, inside_cache));
        let room = self.width().saturating_sub(4);
        for phase in phases {
            let line = label::clip(&say::phase(phase, inside_cache), room);
            self.line(format!("  {line}"));
            if let Some(growth) = phase.growth.first() {
                self.paragraph("    ", &say::leaves_behind(left(phase), growth.of.line()));
            }
        }
    }
}
