//! Other processes that hold memory of a device: `OOMHOOK_SIM_NEIGHBOURS`.

use crate::settings::size;

/// Another process on a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbour {
    pub device: usize,
    pub pid: u32,
    pub bytes: u64,
    pub name: String,
    /// It computes; it draws.
    pub computes: bool,
    pub draws: bool,
}

/// Reads a comma list of `DEVICE:PID:SIZE:NAME`; `G` before the device means one that draws, `CG` one that does both.
pub fn list(text: &str) -> Option<Vec<Neighbour>> {
    let parts = text.split(',').filter(|part| !part.trim().is_empty());
    parts.map(|part| one(part.trim())).collect()
}

fn one(text: &str) -> Option<Neighbour> {
    let mut parts = text.splitn(4, ':');
    let device = parts.next()?;
    let (computes, draws, device) = match device.strip_prefix("CG") {
        Some(device) => (true, true, device),
        None => match device.strip_prefix('G') {
            Some(device) => (false, true, device),
            None => (true, false, device),
        },
    };
    Some(Neighbour {
        device: device.parse().ok()?,
        pid: parts.next()?.parse().ok()?,
        bytes: size(parts.next()?)?,
        name: parts.next()?.to_owned(),
        computes,
        draws,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_read_with_what_they_do() {
        let read = list("0:4711:2GiB:train.py, G1:1200:300MiB:/usr/bin/Xorg :0,CG0:5:1:a").unwrap();
        let told: Vec<_> = read
            .iter()
            .map(|one| (one.device, one.pid, one.bytes, one.computes, one.draws))
            .collect();
        assert_eq!(
            told,
            [
                (0, 4711, 2 << 30, true, false),
                (1, 1200, 300 << 20, false, true),
                (0, 5, 1, true, true)
            ]
        );
        assert_eq!(read[1].name, "/usr/bin/Xorg :0");
        assert_eq!(list(""), Some(Vec::new()));
    }

    #[test]
    fn anything_else_is_none() {
        for text in [
            "0",
            "0:1:2GiB",
            "x:1:1:a",
            "0:-1:1:a",
            "0:1:lots:a",
            "0:1:1:a,b",
        ] {
            assert_eq!(list(text), None, "{text}");
        }
    }
}
