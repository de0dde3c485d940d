//! Memory for when our heap cannot be had: a signal handler runs on top of a thread that has it, or a thread was ended while
//! it had it. Pieces are cut off large mappings and never given back.

use super::pages;
use std::alloc::Layout;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};

/// Size of a mapping; a larger piece gets one of its own.
const CHUNK: usize = 8 << 20;
/// Most mappings.
const MOST: usize = 64;

struct Chunk {
    start: AtomicPtr<u8>,
    size: AtomicUsize,
    used: AtomicUsize,
}

static CHUNKS: [Chunk; MOST] = [const {
    Chunk {
        start: AtomicPtr::new(std::ptr::null_mut()),
        size: AtomicUsize::new(0),
        used: AtomicUsize::new(0),
    }
}; MOST];
static COUNT: AtomicU32 = AtomicU32::new(0);

/// A piece; null when there is no memory.
pub fn take(layout: Layout) -> *mut u8 {
    for _ in 0..MOST {
        let count = COUNT.load(Ordering::Acquire) as usize;
        if let Some(chunk) = count.checked_sub(1).and_then(|last| CHUNKS.get(last))
            && let Some(piece) = chunk.cut(layout)
        {
            return piece;
        }
        if !add(count, layout.size().saturating_add(layout.align())) {
            break;
        }
    }
    std::ptr::null_mut()
}

/// True if the piece was cut here.
pub fn has(pointer: *mut u8) -> bool {
    let count = COUNT.load(Ordering::Acquire) as usize;
    CHUNKS.iter().take(count).any(|chunk| {
        let start = chunk.start.load(Ordering::Acquire) as usize;
        let size = chunk.size.load(Ordering::Acquire);
        (start..start + size).contains(&(pointer as usize))
    })
}

/// Lets a piece that is the last one of its mapping grow or shrink where it is.
pub fn resize(pointer: *mut u8, layout: Layout, size: usize) -> bool {
    let count = COUNT.load(Ordering::Acquire) as usize;
    let chunk = count.checked_sub(1).and_then(|last| CHUNKS.get(last));
    chunk.is_some_and(|chunk| {
        let start = chunk.start.load(Ordering::Acquire) as usize;
        let Some(offset) = (pointer as usize).checked_sub(start) else {
            return false;
        };
        let (end, wanted) = (offset + layout.size(), offset + size);
        wanted <= chunk.size.load(Ordering::Acquire)
            && chunk
                .used
                .compare_exchange(end, wanted, Ordering::AcqRel, Ordering::Acquire)
                .is_ok()
    })
}

impl Chunk {
    fn cut(&self, layout: Layout) -> Option<*mut u8> {
        let size = self.size.load(Ordering::Acquire);
        let start = self.start.load(Ordering::Acquire);
        let mut at = 0;
        // Mappings begin at pages: no alignment asked for is larger.
        self.used
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |used| {
                at = used.next_multiple_of(layout.align());
                at.checked_add(layout.size()).filter(|end| *end <= size)
            })
            .ok()?;
        Some(start.wrapping_add(at))
    }
}

/// Adds a mapping, unless somebody has added one meanwhile; false if there is none left.
fn add(count: usize, least: usize) -> bool {
    let Some(chunk) = CHUNKS.get(count) else {
        return false;
    };
    let size = CHUNK.max(least.next_multiple_of(4096));
    let start = pages::map(size);
    if start.is_null() {
        return false;
    }
    let first = chunk.start.compare_exchange(
        std::ptr::null_mut(),
        start,
        Ordering::AcqRel,
        Ordering::Acquire,
    );
    if first.is_ok() {
        chunk.size.store(size, Ordering::Release);
        COUNT.store(count as u32 + 1, Ordering::Release);
        return true;
    }
    // SAFETY: mapped just above, and nobody has seen it.
    unsafe { pages::unmap(start, size) };
    // Whoever was first publishes it in a moment.
    while COUNT.load(Ordering::Acquire) as usize == count {
        std::hint::spin_loop();
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_aligned_apart_and_known() {
        let small = Layout::from_size_align(24, 8).expect("a layout");
        let odd = Layout::from_size_align(3, 64).expect("a layout");
        let large = Layout::from_size_align(CHUNK + 1, 4096).expect("a layout");
        let mut pieces: Vec<(usize, usize)> = Vec::new();
        for layout in [small, odd, small, large, odd, small] {
            let piece = take(layout);
            assert!(!piece.is_null() && (piece as usize).is_multiple_of(layout.align()));
            assert!(has(piece));
            let range = (piece as usize, piece as usize + layout.size());
            assert!(
                pieces
                    .iter()
                    .all(|other| range.1 <= other.0 || other.1 <= range.0)
            );
            pieces.push(range);
        }
        let mut own = 0u8;
        assert!(!has(&raw mut own));
    }

    #[test]
    fn no_piece_is_cut_twice() {
        let layout = Layout::from_size_align(64, 16).expect("a layout");
        let threads: Vec<_> = (0..4)
            .map(|_| {
                std::thread::spawn(move || {
                    (0..20_000)
                        .map(|_| take(layout) as usize)
                        .collect::<Vec<_>>()
                })
            })
            .collect();
        let mut all: Vec<usize> = threads
            .into_iter()
            .flat_map(|thread| thread.join().expect("it ends"))
            .collect();
        all.sort_unstable();
        assert!(all.windows(2).all(|pair| pair[1] - pair[0] >= 64));
    }
}
