//! Patterns of file names: `%p` pid, `%h` host, `%r` rank, `%j` job, `%c` command, `%%`.

use oomhook_trace::Header;

/// The name that a pattern makes for a process.
#[must_use]
pub fn expand(pattern: &str, header: &Header) -> String {
    let process = &header.process;
    let command = process.command.first().map_or("", String::as_str);
    let command = command.rsplit('/').next().unwrap_or(command);
    // What a name stands for cannot leave its folder.
    let plain = |text: &str| text.replace(['/', '\0'], "_");
    let mut name = String::new();
    let mut rest = pattern.chars();
    while let Some(c) = rest.next() {
        if c != '%' {
            name.push(c);
            continue;
        }
        match rest.next() {
            Some('p') => name.push_str(&process.pid.to_string()),
            Some('h') => name.push_str(&plain(&process.host)),
            Some('r') => name.push_str(&process.rank.map_or("0".into(), |rank| rank.to_string())),
            Some('j') => name.push_str(&plain(process.job.as_deref().unwrap_or("0"))),
            Some('c') => name.push_str(&plain(command)),
            Some('%') | None => name.push('%'),
            Some(other) => {
                name.push('%');
                name.push(other);
            }
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_name_the_process() {
        let mut header = Header::default();
        header.process.pid = 42;
        header.process.host = "node7".into();
        header.process.rank = Some(3);
        header.process.command = vec!["/usr/bin/python3".into()];
        assert_eq!(
            expand("r.%h.%p.%r.%j.%c.%%.%x", &header),
            "r.node7.42.3.0.python3.%.%x"
        );
    }
}
