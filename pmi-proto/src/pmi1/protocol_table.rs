//! Compares `protocol.txt`, the protocol for readers, with the tables of the code.
//!
//! These are tests only. Every row has its code, all code has its row, and the order is the same.

use super::command::{Block, COMMANDS, Command, CommandRow, Framing};
use super::reply::{REFUSED, REPLIES, Reply};
use crate::keyval::{Attribute, Extent};

const TEXT: &str = include_str!("../../protocol.txt");

/// The rows of one direction, each a list of columns after the direction.
fn rows(direction: &str) -> Vec<Vec<String>> {
    TEXT.lines()
        .filter(|line| !line.starts_with('#') && !line.trim().is_empty())
        .map(|line| line.split('|').map(|column| column.trim().to_owned()).collect::<Vec<_>>())
        .filter(|columns| {
            assert!(["C>S", "S>C"].contains(&columns[0].as_str()), "{columns:?}");
            columns[0] == direction
        })
        .map(|mut columns| columns.split_off(1))
        .collect()
}

fn written(attributes: &[Attribute]) -> String {
    let words: Vec<String> = attributes
        .iter()
        .map(|attribute| {
            let text = match attribute.extent {
                Extent::Word => attribute.name.to_owned(),
                Extent::UntilLast(next) => format!("{}~{next}", attribute.name),
                Extent::Rest => format!("{}...", attribute.name),
            };
            if attribute.required { text } else { format!("[{text}]") }
        })
        .collect();
    words.join(" ")
}

/// A row's command with every attribute except `without`, all of them `1`.
fn sample(row: &CommandRow, without: Option<&str>) -> Result<Command, crate::ProtocolError> {
    let pairs: Vec<String> = row
        .attributes
        .iter()
        .filter(|attribute| Some(attribute.name) != without)
        .map(|attribute| {
            // 0 for optional counts, because no numbered lines follow.
            let value = if attribute.required { 1 } else { 0 };
            format!("{}={value}", attribute.name)
        })
        .collect();
    match row.framing {
        Framing::Line => {
            let line = format!("cmd={} {}", row.name, pairs.join(" "));
            Command::parse(line.trim_end().as_bytes())
        }
        Framing::Block => {
            let mut block = Block::begin(format!("mcmd={}", row.name).as_bytes()).unwrap();
            for pair in pairs {
                assert!(!block.add(pair.as_bytes()));
            }
            assert!(block.add(b"endcmd"));
            let command = block.finish()?;
            if let Command::Spawn(block) = &command
                && let Err(error) = &block.content
            {
                return Err(error.clone());
            }
            Ok(command)
        }
    }
}

#[test]
fn the_commands_of_the_text_are_those_of_the_code() {
    let in_code: Vec<Vec<String>> = COMMANDS
        .iter()
        .map(|row| {
            let name = match row.framing {
                Framing::Line => row.name.to_owned(),
                Framing::Block => format!("mcmd:{}", row.name),
            };
            vec![name, written(row.attributes), row.reply.unwrap_or("-").to_owned()]
        })
        .collect();
    assert_eq!(rows("C>S"), in_code);
}

#[test]
fn the_replies_of_the_text_are_those_of_the_code() {
    let mut in_code: Vec<Vec<String>> =
        REPLIES.iter().map(|row| vec![row.name.to_owned(), written(row.attributes)]).collect();
    in_code.push(vec!["*_result".to_owned(), written(REFUSED)]);
    assert_eq!(rows("S>C"), in_code);
}

#[test]
fn every_reply_a_command_names_is_a_row() {
    for reply in COMMANDS.iter().filter_map(|row| row.reply) {
        assert!(REPLIES.iter().any(|row| row.name == reply), "{reply}");
    }
}

#[test]
fn every_row_builds_the_command_it_is_named_for() {
    for row in COMMANDS {
        let command = sample(row, None).unwrap();
        assert_eq!(command.name(), row.name);
    }
}

#[test]
fn a_command_cannot_do_without_what_its_row_requires() {
    for row in COMMANDS {
        for attribute in row.attributes {
            let found = sample(row, Some(attribute.name));
            assert_eq!(found.is_err(), attribute.required, "{} {}", row.name, attribute.name);
        }
    }
}

#[test]
fn every_reply_row_builds_the_reply_it_is_named_for() {
    for row in REPLIES {
        let pairs: Vec<String> = row
            .attributes
            .iter()
            .map(|attribute| {
                let value = if attribute.name == "rc" { 0 } else { 1 };
                format!("{}={value}", attribute.name)
            })
            .collect();
        let reply = Reply::parse(format!("cmd={} {}", row.name, pairs.join(" ")).as_bytes());
        assert_eq!(reply.name(), Some(row.name));
    }
}
