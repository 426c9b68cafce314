//! What a job says, as one document of JSON beside its text: all that rank 0 prints, and how it
//! ended.
//!
//! The document is there from the beginning, without a `status`, so that a file of an earlier run
//! is never taken for the result of one that was cut off. A pipe gets the finished document alone.
//! The fields are in docs/formats/jobs.md.

use super::header::Header;
use keyrack_vfs::{Fs, OutputFile, RealFs};
use serde_json::{Map, Value, json};
use std::path::PathBuf;
use std::sync::Arc;

/// The version of the fields.
const VERSION: u32 = 1;

/// A document that grows while a job runs.
#[derive(Debug)]
pub struct Document {
    /// Nobody asked for it where this is nothing.
    path: Option<PathBuf>,
    fields: Map<String, Value>,
    /// The file, at whoever writes it: one rank alone.
    output: Option<OutputFile>,
}

impl Document {
    /// The document of a program, for a file; an empty path is none.
    #[must_use]
    pub fn new(program: &str, path: Option<&str>) -> Document {
        let mut fields = Map::new();
        fields.insert("document".to_owned(), "keyrack.fs.job".into());
        fields.insert("version".to_owned(), VERSION.into());
        fields.insert("program".to_owned(), program.into());
        fields.insert("status".to_owned(), Value::Null);
        fields.insert("errors".to_owned(), json!([]));
        let path = path.filter(|path| !path.is_empty()).map(PathBuf::from);
        Document { path, fields, output: None }
    }

    /// Begins the file, if this process writes it.
    ///
    /// # Errors
    /// One line if the file cannot be written.
    pub fn begin(&mut self, is_mine: bool) -> Result<(), String> {
        let Some(path) = self.path.as_ref().filter(|_| is_mine) else { return Ok(()) };
        let fs: Arc<dyn Fs> = Arc::new(RealFs);
        let output = OutputFile::whole(&fs, path).map_err(|error| format!("--json: {error}"))?;
        let is_replaced = output.is_replaced();
        self.output = Some(output);
        if is_replaced { self.write() } else { Ok(()) }
    }

    /// Sets a field.
    pub fn put(&mut self, name: &str, value: impl Into<Value>) {
        self.fields.insert(name.to_owned(), value.into());
    }

    /// Appends to a field that is a list.
    pub fn push(&mut self, list: &str, value: impl Into<Value>) {
        let list = self.fields.entry(list.to_owned()).or_insert_with(|| json!([]));
        if let Value::Array(list) = list {
            list.push(value.into());
        }
    }

    pub(crate) fn header(&mut self, header: &Header) {
        self.put("header", header.json());
    }

    /// Notes an error, in the words that were printed.
    pub fn error(&mut self, what: &str) {
        self.push("errors", what);
    }

    /// Ends the file. The status is that of the job, or 1 when the file cannot be written.
    pub fn end(&mut self, program: &str, status: u8) -> u8 {
        self.put("status", status);
        match self.write() {
            Ok(()) => status,
            Err(why) => {
                keyrack_console::refuse(program, &why);
                status.max(keyrack_console::NO)
            }
        }
    }

    fn write(&mut self) -> Result<(), String> {
        let Some(output) = &mut self.output else { return Ok(()) };
        let text = format!("{:#}\n", Value::Object(self.fields.clone()));
        let written = output.append(text.as_bytes()).and_then(|()| output.finish());
        written.map_err(|error| format!("--json: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_rank_writes_and_only_when_it_was_asked() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("j");
        let read = || RealFs.read_to_string(&path).ok();
        let text = path.to_str().unwrap();
        for (asked, is_mine, is_there) in [
            (None, true, false),
            (Some(""), true, false),
            (Some(text), false, false),
            (Some(text), true, true),
        ] {
            let mut document = Document::new("merge", asked);
            document.begin(is_mine).unwrap();
            assert_eq!(document.end("keyrack fs merge", 0), 0);
            assert_eq!(read().is_some(), is_there);
        }
        let found: Value = serde_json::from_str(&read().unwrap()).unwrap();
        assert_eq!((&found["status"], &found["program"]), (&0.into(), &"merge".into()));
        let nowhere = dir.path().join("none/j");
        let error = Document::new("merge", nowhere.to_str()).begin(true).unwrap_err();
        assert!(error.starts_with("--json: ") && error.contains("none"), "{error}");
    }
}
