//! A tree of processes as indented lines. Pure.

use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug)]
pub(crate) struct Node<'a> {
    /// Its name; `None` if nothing can be below it.
    pub(crate) name: Option<&'a str>,
    /// The name of the node above it.
    pub(crate) parent: Option<&'a str>,
    pub(crate) line: String,
}

/// A line for each node. Those below a node follow it, in the given order and further to the right. The parent of a node may
/// have ended.
pub(crate) fn lines(nodes: &[Node<'_>]) -> Vec<String> {
    let names: BTreeSet<&str> = nodes.iter().filter_map(|node| node.name).collect();
    let mut below: BTreeMap<Option<&str>, Vec<&Node<'_>>> = BTreeMap::new();
    for node in nodes {
        below.entry(node.parent.filter(|parent| names.contains(parent))).or_default().push(node);
    }
    let mut lines = Vec::with_capacity(nodes.len());
    let of = |name| below.get(&name).into_iter().flatten().rev().copied();
    let mut rest: Vec<(usize, &Node<'_>)> = of(None).map(|node| (0, node)).collect();
    while let Some((depth, node)) = rest.pop() {
        let orphan = node.parent.filter(|_| depth == 0);
        let note = orphan.map(|parent| format!(" (its parent {parent} has ended)"));
        lines.push(format!("{}{}{}", "  ".repeat(depth), node.line, note.unwrap_or_default()));
        if node.name.is_some() {
            rest.extend(of(node.name).map(|child| (depth + 1, child)));
        }
    }
    lines
}
