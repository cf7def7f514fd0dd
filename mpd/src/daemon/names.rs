//! Names that jobs publish where there is no ring: a private daemon has those of its one job.

use std::collections::BTreeMap;

use mpd_proto::message::{NameAnswer, NameWish};
use mpd_proto::ring::{MAX_NAME, MAX_VALUE};

use crate::daemon::jobs::{Jobs, Wish};
use crate::daemon::membership::Errand;

/// Most names: what is published costs memory here.
const MAX_NAMES: usize = 512;

/// The names, with what they stand for.
#[derive(Debug, Default)]
pub(super) struct Names(BTreeMap<String, String>);

impl Names {
    /// What managers here are to be told of what they want.
    pub(super) fn serve(&mut self, jobs: &mut Jobs) -> Vec<Errand> {
        let serve = |wish: Wish| {
            let answer = self.answer(&wish.wish);
            wish.answered(answer)
        };
        jobs.take_wishes().into_iter().map(serve).collect()
    }

    fn answer(&mut self, wish: &NameWish) -> NameAnswer {
        match wish {
            NameWish::Publish { name, .. } if self.0.contains_key(name) => NameAnswer::Taken,
            NameWish::Publish { .. } if self.0.len() >= MAX_NAMES => {
                NameAnswer::Failed("too many names".to_owned())
            }
            NameWish::Publish { name, value }
                if name.is_empty() || name.len() > MAX_NAME || value.len() > MAX_VALUE =>
            {
                NameAnswer::Failed("the name or its value is empty or too long".to_owned())
            }
            NameWish::Publish { name, value } => {
                self.0.insert(name.clone(), value.clone());
                NameAnswer::Done
            }
            NameWish::Lookup { name } => {
                self.0.get(name).cloned().map_or(NameAnswer::Unknown, NameAnswer::Value)
            }
            NameWish::Unpublish { name } => {
                self.0.remove(name).map_or(NameAnswer::Unknown, |_| NameAnswer::Done)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_had_by_one_until_it_is_taken_back() {
        let mut names = Names::default();
        let publish = |value: &str| NameWish::Publish { name: "a b".into(), value: value.into() };
        let lookup = NameWish::Lookup { name: "a b".into() };
        let back = NameWish::Unpublish { name: "a b".into() };
        assert_eq!(names.answer(&lookup), NameAnswer::Unknown);
        assert_eq!(names.answer(&publish("1")), NameAnswer::Done);
        assert_eq!(names.answer(&publish("2")), NameAnswer::Taken);
        assert_eq!(names.answer(&lookup), NameAnswer::Value("1".into()));
        assert_eq!(names.answer(&back), NameAnswer::Done);
        assert_eq!(names.answer(&back), NameAnswer::Unknown);
    }
}
