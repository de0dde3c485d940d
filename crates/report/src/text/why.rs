//! Why memory ran out, or will, and what helps.

use super::Page;
use crate::diagnosis::Diagnosis;
use crate::schema::Report;
use crate::sentences as say;

/// Advice shown; the JSON has all of it.
const MOST_ADVICE: usize = 2;
/// Evidence shown.
const MOST_EVIDENCE: usize = 2;

impl Page<'_> {
    /// What was found in a process that went well.
    pub(super) fn findings(&mut self, report: &Report) {
        let used = report.devices.iter().filter(|one| one.peak_bytes > 0);
        let are_several = used.count() > 1;
        for (at, finding) in report.findings.iter().enumerate() {
            if at == 0 {
                self.title(say::FOUND, "");
            }
            if are_several && finding.device.is_some() {
                self.line(format!("  {}:", say::gpu(finding.device)));
            }
            self.why(finding);
        }
    }

    /// The cause, what speaks for it, what helps.
    pub(super) fn why(&mut self, diagnosis: &Diagnosis) {
        let cause = say::cause_at(diagnosis.class, diagnosis.place.as_deref());
        self.fact(say::WHY, &cause);
        let indent = " ".repeat(2 + say::WHY.len());
        for evidence in diagnosis.evidence.iter().take(MOST_EVIDENCE) {
            self.paragraph(&indent, evidence);
        }
        if !diagnosis.also.is_empty() {
            let others = diagnosis.also.iter();
            let others: Vec<&str> = others.map(|other| other.class.title()).collect();
            self.fact(say::ALSO, &others.join(", "));
        }
        for advice in diagnosis.advice.iter().take(MOST_ADVICE) {
            self.fact(say::DO, advice);
        }
    }
}
