//! Lists and masks of CPUs for ranks, as other launchers write them, in the form of `-bind-to user:LIST`.

use mpd_placement::locality::list;

use super::language::Facts;
use super::translation::words;

/// Most ranks in a list, and most digits of a mask.
const MAX_WORDS: usize = 4096;

pub(super) fn wrong(text: &str) -> String {
    format!("'{text}' is no list of CPUs")
}

/// Whether a text has only numbers, ranges and commas.
fn is_list(text: &str) -> bool {
    text.split(',').all(|range| {
        let (low, high) = range.split_once('-').unwrap_or((range, range));
        low.parse::<u16>().is_ok() && high.parse::<u16>().is_ok()
    })
}

/// One list for each rank: `0,1:2,3` or with other separators.
pub(super) fn lists(text: &str, between: char) -> Result<String, String> {
    let ranks = text.split(between).map(|rank| match is_list(rank) {
        true => Ok(rank.replace(',', "+")),
        false => Err(wrong(text)),
    });
    Ok(ranks.collect::<Result<Vec<_>, _>>()?.join(","))
}

/// The CPUs of a hexadecimal mask: `0x15` is `0+2+4`.
fn mask(text: &str) -> Option<String> {
    let digits = text.strip_prefix("0x").or(text.strip_prefix("0X")).unwrap_or(text);
    if digits.is_empty() || digits.len() > MAX_WORDS {
        return None;
    }
    let mut cpus = Vec::new();
    for (digit, sign) in (0..).zip(digits.chars().rev()) {
        let value = sign.to_digit(16)?;
        cpus.extend((0..4).filter(|bit| value >> bit & 1 == 1).map(|bit| 4 * digit + bit));
    }
    (!cpus.is_empty()).then(|| list(cpus).replace(',', "+"))
}

/// One mask for each rank.
pub(super) fn masks<'a>(ranks: impl Iterator<Item = &'a str>) -> Option<String> {
    Some(ranks.map(mask).collect::<Option<Vec<String>>>()?.join(","))
}

/// Single CPUs, each for one rank: `0,3,5-7`.
fn singles(text: &str) -> Option<String> {
    let mut all = Vec::new();
    for range in text.split(',') {
        let (low, high) = range.split_once('-').unwrap_or((range, range));
        let (low, high) = (low.parse::<u16>().ok()?, high.parse::<u16>().ok()?);
        all.extend((low..=high).map(|cpu| cpu.to_string()));
        if low > high || all.len() > MAX_WORDS {
            return None;
        }
    }
    Some(all.join(","))
}

/// `WORD*NUMBER` as often as it says.
pub(super) fn repeated(text: &str) -> Result<Vec<&str>, String> {
    let mut all = Vec::new();
    for word in text.split(',') {
        let (word, times) = match word.split_once('*') {
            Some((word, times)) => (word, times.parse::<usize>().map_err(|_| wrong(text))?),
            None => (word, 1),
        };
        if times > MAX_WORDS - all.len() {
            return Err(wrong(text));
        }
        all.extend(std::iter::repeat_n(word, times));
    }
    Ok(all)
}

pub(super) fn user(lists: &str) -> Vec<String> {
    words(&["-bind-to", &format!("user:{lists}")])
}

/// A list of cores in any order as the only CPUs that count.
pub(super) fn only_cores(text: &str) -> Result<String, String> {
    let mut numbers = numbers(text)?;
    numbers.sort_unstable();
    numbers.dedup();
    let ranges = list(numbers);
    Ok(ranges.split(',').map(|range| format!("c{range}")).collect::<Vec<_>>().join(","))
}

/// A list of cores, each for one rank.
pub(super) fn single_cores(text: &str) -> Result<String, String> {
    let numbers = numbers(text)?;
    Ok(numbers.iter().map(|number| format!("c{number}")).collect::<Vec<_>>().join(","))
}

/// The numbers of a list with ranges, in the order of the list.
fn numbers(text: &str) -> Result<Vec<u32>, String> {
    let all = singles(text).ok_or_else(|| wrong(text))?;
    Ok(all.split(',').filter_map(|number| number.parse().ok()).collect())
}

/// The lists of `I_MPI_PIN_DOMAIN=[MASK,...]`.
pub(crate) fn intel_domains(value: &str) -> Option<String> {
    let inside = value.strip_prefix('[')?.strip_suffix(']')?;
    Some(format!("user:{}", masks(inside.split(','))?))
}

/// The lists of `I_MPI_PIN_PROCESSOR_LIST=0,3,5-7`.
pub(crate) fn intel_processors(value: &str) -> Option<String> {
    Some(format!("user:{}", singles(value)?))
}

/// The lists of `MV2_CPU_MAPPING=0:1:2-3:4,5`.
pub(crate) fn mvapich_mapping(value: &str) -> Option<String> {
    Some(format!("user:{}", lists(value, ':').ok()?))
}

/// All CPUs of this host, each for one rank.
pub(super) fn round_robin(caller: &dyn Facts) -> String {
    let mut cpus: Vec<u32> = caller.cpus().iter().map(|cpu| cpu.number).collect();
    cpus.sort_unstable();
    format!("user:{}", cpus.iter().map(ToString::to_string).collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_name_cpus_by_their_bits() {
        assert_eq!(mask("0x15").as_deref(), Some("0+2+4"));
        assert_eq!(mask("ff00").as_deref(), Some("8-15"));
        assert_eq!((mask("0x"), mask("0"), mask("xyz")), (None, None, None));
        assert_eq!(intel_domains("[3,C]").as_deref(), Some("user:0-1,2-3"));
        assert_eq!(intel_domains("3,C"), None);
    }

    #[test]
    fn lists_of_other_launchers_become_ours() {
        assert_eq!(lists("0,1:2-3", ':').as_deref(), Ok("0+1,2-3"));
        assert!(lists("0,:1", ':').is_err() && lists("a", ':').is_err());
        assert_eq!(singles("0,3,5-7").as_deref(), Some("0,3,5,6,7"));
        assert_eq!(singles("7-5"), None);
        assert_eq!(repeated("0*2,3").unwrap(), ["0", "0", "3"]);
        assert!(repeated("0*99999").is_err());
        assert_eq!(only_cores("0-1,4").as_deref(), Ok("c0-1,c4"));
        assert_eq!(only_cores("4,0,1").as_deref(), Ok("c0-1,c4"));
        assert_eq!(single_cores("4,0-1").as_deref(), Ok("c4,c0,c1"));
        assert!(only_cores("4,x").is_err() && single_cores("1-0").is_err());
    }
}
