//! Formulas for the figures of a ring of any size.

use super::Figures;
use super::costs::Costs;

const LATENCY_US: f64 = 50.0;
const BYTES_PER_US: f64 = 1250.0;
const FAN_OUT: f64 = 16.0;
/// Bytes of the launch order for each host: its name and its ranks.
const SLICE: f64 = 26.0;
/// Bytes of the addresses of a host with children.
const ADDRESS: f64 = 50.0;
/// Bytes of an answer.
const ANSWER: f64 = 40.0;
const MAX_LAP_NAMES: f64 = 1024.0;

/// The figures of `hosts` hosts, with a specification of `spec` bytes.
pub(super) fn figures(hosts: usize, spec: usize, costs: &Costs) -> Figures {
    let n = hosts as f64;
    let order = n * SLICE + n / FAN_OUT * ADDRESS;
    let steps = n.log2().ceil();
    let levels = (n * (FAN_OUT - 1.0) + 1.0).log(FAN_OUT).ceil() - 1.0;
    let codec = |bytes: f64| costs.kib_of_scatter / 2.0 * bytes / 1024.0;
    let wire = |bytes: f64| bytes / BYTES_PER_US;
    // The first part is sent first, so the longest way costs one message at each step.
    let half = costs.member_of_scatter / 4.0 + codec(order);
    let down = steps * (2.0 * half + wire(order * 4.0 / 3.0) + LATENCY_US);
    // On the way back the answers of a part double at each step.
    let answers = n * ANSWER;
    let up = steps * (costs.member_of_scatter / 2.0 + LATENCY_US)
        + 2.0 * (2.0 * codec(answers) + wire(answers));
    // A parent sends the specification to its children one after the other.
    let spec = spec as f64;
    let copy = costs.kib_of_spec / 2.0 * spec / 1024.0 + costs.hop / 2.0;
    let level = FAN_OUT * copy.max(wire(spec)) + copy + 4.0 * LATENCY_US;
    // Small messages in the tree: the parent handles those of all children.
    let turn = levels * ((FAN_OUT + 1.0) * costs.hop / 2.0 + LATENCY_US);
    let ready = down + costs.host_until_ready + levels * level + turn;
    let started = ready + turn + costs.rank;
    // Started and ended ranks, then stop, kill, drain, clean-up: each once down and once up.
    let job = started + turn + 8.0 * turn;
    let hop = costs.hop + LATENCY_US;
    let named = n.min(MAX_LAP_NAMES);
    let lap_bytes = named * 13.0 * (1.0 - named / n / 2.0);
    Figures {
        hosts,
        source: "model",
        scatter_ms: (down + up) / 1e3,
        launch_ms: started / 1e3,
        job_ms: job / 1e3,
        steps,
        messages: 2.0 + 11.0 * 2.0,
        most_messages: steps + FAN_OUT * 6.0,
        kib: (order * 4.0 / 3.0 + spec + steps * ANSWER) / 1024.0,
        most_kib: (steps * order * 4.0 / 3.0 + FAN_OUT * spec) / 1024.0,
        // The news goes round both ways.
        death_ms: n / 2.0 * hop / 1e3,
        lap_s: n * (hop + 2.0 * codec(lap_bytes) + wire(lap_bytes)) / 1e6,
        lap_kib: lap_bytes / 1024.0,
        list_mib: n * costs.member_bytes / (1 << 20) as f64,
    }
}
