//! One end of one job link, above the channel.

mod timing;

pub use timing::Timing;
