//! Values of types that are not carried over: passed by their structure.

use super::string::{count, plain_length};
use crate::error::Result;
use crate::input::Input;

pub(super) use super::string::skip as string;

/// How a value is written.
#[derive(Clone, Copy, Debug)]
pub(super) enum Form {
    /// One string.
    String,
    /// A count, then so many strings for each.
    Strings(u32),
    /// A count, then a string and a number as text.
    TextScores,
    /// A count, then a string and a number of eight bytes.
    Scores,
    /// A count, then a kind of node and a string.
    QuickList,
    /// A stream, of version 1 to 3.
    Stream(u32),
    /// The number of a module, then parts until an end.
    Module,
}

pub(super) fn lengths(input: &mut Input<'_>, count: u32) -> Result<()> {
    (0..count).try_for_each(|_| plain_length(input).map(drop))
}

pub(super) fn value(form: Form, input: &mut Input<'_>) -> Result<()> {
    match form {
        Form::String => string(input),
        Form::Strings(each) => strings(input, each),
        Form::TextScores => {
            for _ in 0..count(input)? {
                string(input)?;
                text_score(input)?;
            }
            Ok(())
        }
        Form::Scores => {
            for _ in 0..count(input)? {
                string(input)?;
                input.skip(8, 8)?;
            }
            Ok(())
        }
        Form::QuickList => {
            for _ in 0..count(input)? {
                plain_length(input)?;
                string(input)?;
            }
            Ok(())
        }
        Form::Stream(version) => stream(input, version),
        Form::Module => {
            plain_length(input)?;
            module_parts(input)
        }
    }
}

fn strings(input: &mut Input<'_>, each: u32) -> Result<()> {
    for _ in 0..count(input)? {
        (0..each).try_for_each(|_| string(input))?;
    }
    Ok(())
}

/// Its length and its digits; the three largest lengths are numbers without digits.
fn text_score(input: &mut Input<'_>) -> Result<()> {
    match input.byte()? {
        253..=255 => Ok(()),
        bytes => input.skip(u64::from(bytes), 252),
    }
}

/// Nodes, then numbers about the whole, then groups with their consumers.
fn stream(input: &mut Input<'_>, version: u32) -> Result<()> {
    strings(input, 2)?;
    lengths(input, if version >= 2 { 8 } else { 3 })?;
    for _ in 0..count(input)? {
        string(input)?;
        lengths(input, if version >= 2 { 3 } else { 2 })?;
        for _ in 0..count(input)? {
            input.skip(16 + 8, 24)?;
            plain_length(input)?;
        }
        for _ in 0..count(input)? {
            string(input)?;
            input.skip(if version >= 3 { 16 } else { 8 }, 16)?;
            for _ in 0..count(input)? {
                input.skip(16, 16)?;
            }
        }
    }
    Ok(())
}

/// What a module saved beside keys: its number, when, and parts.
pub(super) fn module_aux(input: &mut Input<'_>) -> Result<()> {
    lengths(input, 3)?;
    module_parts(input)
}

/// Parts that say what they are: 0 is the end, then two kinds of integers, two of floating-point
/// numbers, and strings.
fn module_parts(input: &mut Input<'_>) -> Result<()> {
    loop {
        let at = input.offset();
        match plain_length(input)? {
            0 => return Ok(()),
            1 | 2 => plain_length(input).map(drop)?,
            3 => input.skip(4, 4)?,
            4 => input.skip(8, 8)?,
            5 => string(input)?,
            other => return Err(input.damage(at, format!("{other} is no part of a module"))),
        }
    }
}
