//! A device's use over time, and whether what lies beside the allocations grows along with something.

use crate::schema::{Point, UntrackedGrowth};
use oomhook_ledger::Ledger;
use oomhook_ledger::costs::Look;
use oomhook_trace::record::Object;

/// Most points of a line.
const MOST_POINTS: usize = 240;
/// So many looks at least make a trend.
const LEAST_LOOKS: usize = 6;
/// Less growth is nobody's concern.
const LEAST_GROWTH: i64 = 16 << 20;
/// How much of the variation the number of objects must explain.
const LEAST_FIT: f64 = 0.9;

/// Objects that hold device memory beside allocations.
const HOLDERS: [Object; 7] = [
    Object::GraphExec,
    Object::Module,
    Object::Library,
    Object::Stream,
    Object::Event,
    Object::Texture,
    Object::Surface,
];

fn of_device(ledger: &Ledger, device: u8) -> Vec<&Look> {
    let all = ledger.costs().looks().iter();
    all.filter(|look| look.sample.device == device).collect()
}

/// The line.
pub fn points(ledger: &Ledger, device: u8) -> Vec<Point> {
    let looks = of_device(ledger, device);
    let step = looks.len().div_ceil(MOST_POINTS).max(1);
    let last = looks.len().saturating_sub(1);
    let shown = looks
        .iter()
        .enumerate()
        .filter(|(at, _)| at % step == 0 || *at == last);
    shown
        .map(|(_, look)| Point {
            time_ns: look.sample.time_ns,
            used_bytes: look.sample.used,
            process_bytes: look.sample.process,
            tracked_bytes: look.tracked,
            untracked_bytes: look.untracked(),
            rest_bytes: look.rest(),
        })
        .collect()
}

/// A look, and the bytes beside the allocations then.
type Seen<'a> = (&'a Look, i64);

/// Growth after the start, which is its first third: of this process where what it has is known, else of all that nobody
/// explains.
pub fn growth(ledger: &Ledger, device: u8) -> Option<UntrackedGrowth> {
    let looks = of_device(ledger, device);
    let own = looks.iter();
    let own: Vec<Seen<'_>> = own
        .filter_map(|look| Some((*look, look.untracked_of_process()?)))
        .collect();
    let is_own = own.len() >= LEAST_LOOKS && own.len() * 2 > looks.len();
    let looks: Vec<Seen<'_>> = match is_own {
        true => own,
        false => looks
            .into_iter()
            .map(|look| (look, look.untracked()))
            .collect(),
    };
    let looks = looks.get(looks.len() / 3..)?;
    let (first, last) = (looks.first()?, looks.last()?);
    let bytes = last.1.saturating_sub(first.1);
    if looks.len() < LEAST_LOOKS || bytes < LEAST_GROWTH || !is_steady(looks) {
        return None;
    }
    let with = HOLDERS
        .into_iter()
        .filter(|kind| last.0.count(*kind) > first.0.count(*kind))
        .map(|kind| (kind, fit(looks, kind)))
        .filter(|(_, fit)| *fit >= LEAST_FIT)
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .map(|(kind, _)| kind);
    let objects = with.map_or(0, |kind| last.0.count(kind) - first.0.count(kind));
    Some(UntrackedGrowth {
        bytes,
        since_ns: first.0.sample.time_ns,
        is_own,
        with,
        objects,
        bytes_each: (bytes.unsigned_abs()).checked_div(objects).unwrap_or(0),
    })
}

/// More in each third than in the one before: no single step.
fn is_steady(looks: &[Seen<'_>]) -> bool {
    let mean = |part: &[Seen<'_>]| {
        let sum: i128 = part.iter().map(|look| i128::from(look.1)).sum();
        sum / part.len().max(1) as i128
    };
    let third = looks.len() / 3;
    let parts = [
        &looks[..third],
        &looks[third..2 * third],
        &looks[2 * third..],
    ];
    let means = parts.map(mean);
    let least = i128::from(LEAST_GROWTH / 8);
    means[0] + least < means[1] && means[1] + least < means[2]
}

/// The share of the variation that goes along with the number of these objects (the square of the correlation).
fn fit(looks: &[Seen<'_>], kind: Object) -> f64 {
    let pairs = || {
        looks
            .iter()
            .map(|(look, bytes)| (look.count(kind) as f64, *bytes as f64))
    };
    let number = looks.len() as f64;
    let (sum_x, sum_y) = pairs().fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    let (mean_x, mean_y) = (sum_x / number, sum_y / number);
    let (mut xy, mut xx, mut yy) = (0.0, 0.0, 0.0);
    for (x, y) in pairs() {
        xy += (x - mean_x) * (y - mean_y);
        xx += (x - mean_x) * (x - mean_x);
        yy += (y - mean_y) * (y - mean_y);
    }
    if xx == 0.0 || yy == 0.0 {
        0.0
    } else {
        xy * xy / (xx * yy)
    }
}
