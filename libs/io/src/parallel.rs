//! Work that waits, for many items at a time.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Calls `work` for each item, for at most `width` items at a time. The results have the order of
/// the items.
pub fn each<T: Sync, R: Send>(items: &[T], width: usize, work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<Option<R>>> = items.iter().map(|_| Mutex::new(None)).collect();
    thread::scope(|scope| {
        for _ in 0..width.min(items.len()) {
            scope.spawn(|| {
                while let Some((item, slot)) = {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    items.get(i).zip(results.get(i))
                } {
                    let result = work(item);
                    *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
                }
            });
        }
    });
    let taken = results.into_iter().map(|slot| slot.into_inner());
    taken.filter_map(|slot| slot.unwrap_or_else(PoisonError::into_inner)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_item_is_worked_on_with_any_width() {
        let items: Vec<u32> = (0..50).collect();
        for width in [1, 7, 100] {
            assert_eq!(each(&items, width, |i| i * 2), (0..100).step_by(2).collect::<Vec<_>>());
        }
        assert!(each(&[] as &[u32], 4, |i| *i).is_empty());
    }
}
