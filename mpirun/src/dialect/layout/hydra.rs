//! Hosts and CPUs by the options of Hydra and Intel MPI. Hydra binds only with `-bind-to`. Ranks use mapped parts in turn,
//! which are those of the binding by default.

use mpd_wire::job::Binding;

use super::{Layout, Map, Unit, bound, is_fine, mapped, number, part, positive};
use crate::dialect::cpus;
use crate::dialect::language::Facts;
use crate::dialect::translation::{Translation, words};

/// The options as they are written.
impl Layout {
    /// `-bind-to` of Hydra, and `-binding` of Intel MPI with variables like `domain=socket`.
    pub(in crate::dialect) fn hydra_bind(&mut self, text: &str, caller: &dyn Facts) -> Translation {
        if text.contains('=') {
            return variables(text);
        }
        self.bind = Some(match text {
            "none" | "machine" => Unit::None,
            "rr" => Unit::Ours(cpus::round_robin(caller)),
            _ if text.starts_with("user:") || text == "slots" => Unit::Ours(text.to_owned()),
            _ => {
                let (unit, number) = numbered(text)?;
                let unknown = || format!("the unit '{text}' is not available");
                Unit::Part(unit.ok_or_else(unknown)?, number)
            }
        });
        Ok(Vec::new())
    }

    /// `-map-by` of Hydra.
    pub(in crate::dialect) fn hydra_map(&mut self, text: &str) -> Translation {
        self.map = Some(match numbered(text)? {
            _ if ["machine", "slot", "none"].contains(&text) => Map::Slot,
            _ if text == "node" => Map::Node,
            (Some(unit), number) => Map::Part(unit, number),
            (None, _) => return Err(format!("the part '{text}' is not available")),
        });
        Ok(Vec::new())
    }
}

/// `pin=yes;domain=socket`: variables of the same names.
fn variables(text: &str) -> Translation {
    let mut made = Vec::new();
    for field in text.split(';').filter(|field| !field.is_empty()) {
        let name = match field.split_once('=') {
            Some(("pin", _)) => "I_MPI_PIN",
            Some(("domain", _)) => "I_MPI_PIN_DOMAIN",
            Some(("cell", _)) => "I_MPI_PIN_CELL",
            Some(("order", _)) => "I_MPI_PIN_ORDER",
            _ => return Err(format!("'{field}' is not available; see I_MPI_PIN_DOMAIN")),
        };
        let value = field.split_once('=').map_or("", |(_, value)| value);
        made.extend(words(&["-genv", name, value]));
    }
    Ok(made)
}

/// A part, with a number after a colon.
fn numbered(text: &str) -> Result<(Option<Binding>, u32), String> {
    let (name, number) = text.split_once(':').unwrap_or((text, "1"));
    Ok((part(name), positive(number)?))
}

/// The options in our words.
impl Layout {
    pub(super) fn of_hydra(&self, pins: bool) -> Vec<String> {
        let mut made = match self.map {
            Some(Map::Node) => words(&["-rr"]),
            _ => Vec::new(),
        };
        let (unit, width) = match &self.bind {
            // Intel MPI pins ranks by default, unless variables say how.
            None if pins => return words(&["-bind-to", "slots"]),
            None => return made,
            Some(Unit::None) => return [made, words(&["-bind-to", "none"])].concat(),
            Some(Unit::Ours(value)) => return [made, words(&["-bind-to", value])].concat(),
            Some(Unit::Part(unit, width)) => (*unit, *width),
        };
        match self.map {
            Some(Map::Part(over, joined)) => made.extend(mapped(over, &number(joined))),
            _ if width == 1 && !is_fine(unit) => made.extend(mapped(unit, "")),
            _ => {}
        }
        made.extend(bound(unit, width));
        made
    }
}
