//! What was found, as text: the verdict first, the next command last.

use super::gpus::Gpu;
use super::who::User;
use super::{Findings, words};
use oomhook_report::text::label::{clip, shorten, width};
use oomhook_report::text::{Colour, Paint, Style};
use oomhook_report::units::bytes;
use std::collections::BTreeMap;

/// Columns before the text of a labelled line.
const LABEL: usize = 10;
/// From so many columns on, a GPU takes one line.
const WIDE: usize = 146;
/// Fewer columns than this are not tried.
const NARROWEST: usize = 60;
/// Stands for what is not known.
const NONE: &str = "-";

struct Page {
    width: usize,
    paint: Paint,
    text: String,
}

/// The text.
pub fn render(findings: &Findings, style: &Style) -> String {
    let mut page = Page {
        width: style.width.max(NARROWEST),
        paint: Paint(style.colour),
        text: String::new(),
    };
    page.verdict(findings);
    page.facts(findings);
    if let Some(gpus) = findings.gpus.as_ref().filter(|gpus| !gpus.is_empty()) {
        page.gpus(gpus);
        page.reserves(gpus);
        page.users(gpus);
        page.unknown(gpus);
    }
    page.command(findings);
    page.notes(&findings.notes);
    page.line("");
    page.line(&format!("Next: {}", findings.next));
    page.text
}

impl Page {
    fn line(&mut self, text: &str) {
        self.text.push_str(text.trim_end());
        self.text.push('\n');
    }

    fn title(&mut self, text: &str) {
        self.line("");
        let text = self.paint.bold(text);
        self.line(&text);
    }

    /// Text that may take several lines; those after the first are indented as deep as the lead is long.
    fn paragraph(&mut self, lead: &str, text: &str) {
        let indent = width(lead);
        let room = self.width - indent;
        let mut line = String::new();
        let mut lead = lead.to_owned();
        for word in text.split(' ') {
            if !line.is_empty() && width(&line) + 1 + width(word) > room {
                self.line(&format!("{lead}{line}"));
                lead = " ".repeat(indent);
                line.clear();
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        self.line(&format!("{lead}{line}"));
    }

    fn labelled(&mut self, label: &str, text: &str) {
        self.paragraph(&format!("{label:<LABEL$}"), text);
    }

    fn verdict(&mut self, findings: &Findings) {
        let verdict = words::verdict(findings.obstacles.len());
        let colour = if findings.ready {
            Colour::Green
        } else {
            Colour::Red
        };
        let verdict = self.paint.with(colour, &verdict);
        self.line(&format!("oomhook doctor: {verdict}"));
        for obstacle in &findings.obstacles {
            self.paragraph("  - ", obstacle);
        }
        self.line("");
    }

    fn facts(&mut self, findings: &Findings) {
        let driver = &findings.driver;
        if driver.libcuda.is_some() || driver.version.is_some() {
            let (version, cuda) = (driver.version.as_deref(), driver.cuda.as_deref());
            let mut text = words::driver(version, cuda, driver.simulated);
            if let Some(nvml) = &driver.nvml_version {
                text.push_str(&format!(", NVML {nvml}"));
            }
            self.labelled("driver", &text);
        }
        if let Some(path) = &findings.library.path {
            self.labelled("library", path);
        }
        let traces = &findings.traces;
        if traces.none {
            self.labelled("traces", words::NO_TRACE);
        } else if traces.writable {
            let place = words::place(
                &traces.pattern,
                &traces.folder,
                traces.varies,
                traces.free_bytes,
            );
            self.labelled("traces", &place);
        }
        let limits = &findings.limits;
        let limits = words::limits(limits.memlock_bytes, limits.address_space_bytes);
        self.labelled("limits", &limits);
        let mut label = "settings";
        if findings.settings.is_empty() {
            self.labelled(label, words::NO_SETTINGS);
        }
        for setting in &findings.settings {
            match &setting.problem {
                Some(problem) => self.labelled(label, &format!("wrong: {problem}")),
                None => self.labelled(label, &format!("{}={}", setting.name, setting.value)),
            }
            label = "";
        }
        for (at, one) in findings.ld_preload.iter().enumerate() {
            self.labelled(if at == 0 { "preload" } else { "" }, &one.path);
        }
    }

    fn gpus(&mut self, gpus: &[Gpu]) {
        let is_wide = self.width >= WIDE;
        // What the other columns leave.
        let fixed = 3 + 2 + 3 * 11 + 6 + 12;
        let room = match is_wide {
            true => 40,
            false => (self.width - fixed).min(40),
        };
        let names = gpus
            .iter()
            .map(|gpu| width(gpu.name.as_deref().unwrap_or(NONE)));
        let room = names.max().unwrap_or(0).clamp(4, room);
        let ids = if is_wide { "  UUID and PCI bus" } else { "" };
        let head = format!(
            "GPU  {:<room$} {:>10} {:>10} {:>10}  {:<4}  {:<10}{ids}",
            "name", "total", "used", "free", "MIG", "mode"
        );
        self.title(head.trim_end());
        for gpu in gpus {
            let size = |size: Option<u64>| size.map_or(NONE.to_owned(), bytes);
            let name = shorten(gpu.name.as_deref().unwrap_or(NONE), room);
            let mig = gpu
                .mig
                .map_or(NONE, |mig| if mig == "unsupported" { "none" } else { mig });
            let line = format!(
                "{:>3}  {name:<room$} {:>10} {:>10} {:>10}  {mig:<4}  {:<10}",
                gpu.index,
                size(gpu.total_bytes),
                size(gpu.used_bytes),
                size(gpu.free_bytes),
                gpu.compute_mode.unwrap_or(NONE),
            );
            let uuid = gpu.uuid.as_deref().unwrap_or(NONE);
            let ids = format!("{uuid}  {}", gpu.pci_bus_id.as_deref().unwrap_or(NONE));
            if is_wide {
                self.line(&format!("{line}  {ids}"));
            } else {
                self.line(&line);
                let ids = clip(&ids, self.width - 5);
                let ids = self.paint.dim(&ids);
                self.line(&format!("     {ids}"));
            }
        }
    }

    /// Or total, used and free would not add up.
    fn reserves(&mut self, gpus: &[Gpu]) {
        let most = gpus.iter().filter_map(|gpu| gpu.reserved_bytes).max();
        if let Some(most) = most.filter(|most| *most > 0) {
            self.paragraph("     ", &words::reserved(most));
        }
    }

    fn users(&mut self, gpus: &[Gpu]) {
        let is_known = |gpu: &&Gpu| gpu.processes.is_some();
        let users: Vec<(u32, &User)> = gpus
            .iter()
            .flat_map(|gpu| gpu.processes.iter().flatten().map(|user| (gpu.index, user)))
            .collect();
        if users.is_empty() {
            if gpus.iter().all(|gpu| is_known(&gpu)) {
                self.line("");
                self.line(words::UNUSED);
            }
        } else {
            let has_unknown = users.iter().any(|(_, user)| user.bytes.is_none());
            let figure = if has_unknown {
                width(words::NOT_AVAILABLE)
            } else {
                10
            };
            let names = users
                .iter()
                .map(|(_, user)| width(user.user.as_deref().unwrap_or(NONE)));
            let names = names.max().unwrap_or(0).clamp(4, 12);
            self.title(&format!(
                "GPU {:>8}  {:<names$} {:>figure$}  process",
                "pid", "user", "bytes"
            ));
            for (index, user) in users {
                self.user(index, user, names, figure);
            }
        }
        for gpu in gpus {
            if let Some(rest) = gpu.unlisted_bytes {
                let any = gpu
                    .processes
                    .as_ref()
                    .is_some_and(|users| !users.is_empty());
                self.paragraph("", &words::unlisted(gpu.index, rest, any));
            }
        }
    }

    fn user(&mut self, index: u32, user: &User, names: usize, figure: usize) {
        const SHORTEST: usize = 24;
        let owner = clip(user.user.as_deref().unwrap_or(NONE), names);
        let size = user.bytes.map_or(words::NOT_AVAILABLE.to_owned(), bytes);
        let lead = format!(
            "{index:>3} {:>8}  {owner:<names$} {size:>figure$}  ",
            user.pid
        );
        let room = self.width.saturating_sub(width(&lead));
        let name = user.name.as_deref().unwrap_or(NONE);
        let Some(standing) = words::standing(user) else {
            let name = shorten(name, room);
            return self.line(&format!("{lead}{name}"));
        };
        let note = format!(" ({standing})");
        match room.checked_sub(width(&note)) {
            Some(left) if left >= width(name).min(SHORTEST) => {
                self.line(&format!("{lead}{}{note}", shorten(name, left)));
            }
            _ => {
                self.line(&format!("{lead}{}", shorten(name, room)));
                self.line(&format!("{}{}", " ".repeat(width(&lead) - 1), note));
            }
        }
    }

    /// Figures that are missing, by reason.
    fn unknown(&mut self, gpus: &[Gpu]) {
        for gpu in gpus.iter().filter(|gpu| !gpu.unknown.contains_key("gpu")) {
            let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
            for (key, reason) in &gpu.unknown {
                reasons.entry(reason).or_default().push(key);
            }
            for (reason, keys) in reasons {
                self.paragraph("", &words::unknown(gpu.index, &keys, reason));
            }
        }
    }

    fn command(&mut self, findings: &Findings) {
        let Some(command) = &findings.command else {
            return;
        };
        self.line("");
        let line = clip(&command.command.join(" "), self.width - LABEL);
        self.labelled("command", &line);
        for said in command.said() {
            self.labelled("", &said);
        }
    }

    fn notes(&mut self, notes: &[String]) {
        if notes.is_empty() {
            return;
        }
        self.title("Good to know");
        for note in notes {
            self.paragraph("  - ", note);
        }
    }
}
