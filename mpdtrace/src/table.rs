//! Tables of text for a window. Pure.

/// A cut column keeps at least this width.
const LEAST: usize = 8;

/// This much of the last column should fit the window.
const LAST: usize = 16;

/// A heading and rows in columns of fitting width. A heading that begins with `>` aligns its column to the right. If the
/// table is wider than `window`, the columns whose headings begin with `~` are cut; a cut cell ends in `+`.
pub(crate) fn table(
    heads: &[&str],
    rows: impl Iterator<Item = Vec<String>>,
    window: usize,
) -> Vec<String> {
    let names = heads.iter().map(|head| head.trim_start_matches(['>', '~']).to_owned()).collect();
    let all: Vec<Vec<String>> = std::iter::once(names).chain(rows).collect();
    let width = |column: usize| all.iter().map(|row| row[column].chars().count()).max();
    let mut widths: Vec<usize> = (0..heads.len()).filter_map(width).collect();
    cut(&mut widths, heads, window);
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).zip(heads).map(|((cell, &width), head)| {
            let cell = fitted(cell, width, head);
            match head.starts_with('>') {
                true => format!("{cell:>width$}"),
                false => format!("{cell:width$}"),
            }
        });
        cells.collect::<Vec<String>>().join(" ").trim_end().to_owned()
    };
    all.iter().map(line).collect()
}

/// Makes the widest cut columns narrower until the table fits the window.
fn cut(widths: &mut [usize], heads: &[&str], window: usize) {
    let last = widths.last().map_or(0, |&last| last.saturating_sub(LAST));
    let total = widths.iter().sum::<usize>() + widths.len().saturating_sub(1) - last;
    for _ in window..total {
        let pairs = widths.iter_mut().zip(heads).filter(|(_, head)| head.starts_with('~'));
        match pairs.map(|(width, _)| width).max() {
            Some(width) if *width > LEAST => *width -= 1,
            _ => return,
        }
    }
}

fn fitted(cell: &str, width: usize, head: &str) -> String {
    if !head.starts_with('~') || cell.chars().count() <= width {
        return cell.to_owned();
    }
    cell.chars().take(width - 1).chain(['+']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(window: usize) -> Vec<String> {
        let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        let rows = [row(["node-0001.cluster.org", "7", "a.out"]), row(["n2", "1234", "b"])];
        table(&["~HOST", ">PID", "PROGRAM"], rows.into_iter(), window)
    }

    #[test]
    fn columns_have_the_width_of_their_widest_cell() {
        let expected = [
            "HOST                   PID PROGRAM",
            "node-0001.cluster.org    7 a.out",
            "n2                    1234 b",
        ];
        assert_eq!(lines(usize::MAX), expected);
        assert_eq!(lines(34), expected);
    }

    #[test]
    fn long_names_are_cut_in_a_narrow_window() {
        let expected =
            ["HOST          PID PROGRAM", "node-0001.c+    7 a.out", "n2           1234 b"];
        assert_eq!(lines(25), expected);
        assert_eq!(lines(3)[1], "node-00+    7 a.out", "a name keeps eight characters");
    }
}
