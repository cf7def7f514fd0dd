//! The numbers of processes with which a program can run, as MPI writes them for `-soft` and for
//! the key `soft` of a spawn. The text is a list of `A`, `A:B` (all from A to B) and `A:B:STEP` (A,
//! A+STEP … not beyond B; STEP may be negative).

use std::str::FromStr;

/// A set of numbers of processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Soft {
    /// For each triplet the first number, the limit, and the step.
    triplets: Vec<(i64, i64, i64)>,
}

/// The reason why a text gives no such set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSoft {
    /// The text is neither a number nor a triplet of numbers.
    #[error("{0:?} is neither N, LOW:HIGH nor LOW:HIGH:STEP")]
    Part(String),
    /// The step of a triplet is 0.
    #[error("{0:?} has a step of 0")]
    NoStep(String),
}

impl Soft {
    /// The largest number in the set that is at least 1 and at most `most`.
    pub fn largest_up_to(&self, most: u32) -> Option<u32> {
        self.triplets.iter().filter_map(|&t| largest(t, i64::from(most))).max()
    }
}

/// The same for one triplet.
fn largest((first, last, step): (i64, i64, i64), most: i64) -> Option<u32> {
    // A falling triplet gives the same numbers as a rising one that begins with its smallest
    // number.
    let (low, high, step) = if step > 0 {
        (first, last, step)
    } else {
        if last > first {
            return None;
        }
        (first - (first - last) / -step * -step, first, -step)
    };
    let high = high.min(most);
    if high < low {
        return None;
    }
    let number = low + (high - low) / step * step;
    u32::try_from(number).ok().filter(|&n| n > 0)
}

impl FromStr for Soft {
    type Err = InvalidSoft;
    fn from_str(text: &str) -> Result<Self, InvalidSoft> {
        let triplet = |part: &str| {
            let bad = || InvalidSoft::Part(part.to_owned());
            let numbers = part
                .split(':')
                // 32 bits are enough for any number of processes, and 64 bits leave room to
                // calculate.
                .map(|n| n.parse::<i32>().map(i64::from).map_err(|_| bad()))
                .collect::<Result<Vec<_>, _>>()?;
            match numbers[..] {
                [only] => Ok((only, only, 1)),
                [first, last] => Ok((first, last, 1)),
                [_, _, 0] => Err(InvalidSoft::NoStep(part.to_owned())),
                [first, last, step] => Ok((first, last, step)),
                _ => Err(bad()),
            }
        };
        Ok(Self { triplets: text.split(',').map(triplet).collect::<Result<_, _>>()? })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn largest_of(text: &str, most: u32) -> Option<u32> {
        text.parse::<Soft>().unwrap().largest_up_to(most)
    }

    #[test]
    fn the_largest_number_not_above_n_is_taken() {
        assert_eq!(largest_of("4", 8), Some(4));
        assert_eq!(largest_of("2:6", 4), Some(4));
        assert_eq!(largest_of("2:6", 9), Some(6));
        assert_eq!(largest_of("2:9:3", 7), Some(5));
        assert_eq!(largest_of("9:2:-3", 8), Some(6));
        assert_eq!(largest_of("9:2:-3", 99), Some(9));
        assert_eq!(largest_of("-4:100:3", 4), Some(2));
    }

    #[test]
    fn every_element_of_the_list_counts() {
        assert_eq!(largest_of("1,16:64:16,8", 40), Some(32));
        assert_eq!(largest_of("64,1", 40), Some(1));
        assert_eq!(largest_of("1,2:3", 40), Some(3));
    }

    #[test]
    fn a_set_may_have_no_fitting_number() {
        for text in ["8", "5:9", "0", "-3:0", "9:5", "2:4:-1"] {
            assert_eq!(largest_of(text, 4), None, "{text}");
        }
    }

    #[test]
    fn invalid_parts_are_refused() {
        for bad in ["", "x", "1,", "1:", "1:2:3:4", "1;2", "99999999999", "1.5"] {
            assert!(matches!(bad.parse::<Soft>(), Err(InvalidSoft::Part(_))), "{bad:?}");
        }
        assert_eq!("1,2:4:0".parse::<Soft>(), Err(InvalidSoft::NoStep("2:4:0".into())));
    }

    proptest! {
        #[test]
        fn calculating_equals_counting(
            first in -20i32..60, last in -20i32..60, step in -7i32..7, most in 1u32..70,
        ) {
            prop_assume!(step != 0);
            let mut counted = None;
            let mut number = first;
            while if step > 0 { number <= last } else { number >= last } {
                if let Ok(n @ 1..) = u32::try_from(number) && n <= most {
                    counted = counted.max(Some(n));
                }
                number += step;
            }
            prop_assert_eq!(largest_of(&format!("{first}:{last}:{step}"), most), counted);
        }
    }
}
