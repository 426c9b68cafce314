//! A notebook in a file: read whole, replaced at one stroke.
//!
//! After a crash at any point the name stands for the whole old notebook or for the whole new one
//! ([`OutputFile`](keyrack_vfs::OutputFile)). A symbolic link stays, and its target is replaced.
//!
//! A file that is no notebook is refused before anything is measured, and again at the end.

use crate::outputs::as_io;
use crate::sink::{Notebook, Page};
use keyrack_vfs::{FileKind, Fs, OutputFile, write_output};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// See the module.
#[derive(Clone, Debug)]
pub struct NotebookFile {
    fs: Arc<dyn Fs>,
    path: PathBuf,
}

impl NotebookFile {
    /// The notebook at `path`, which need not exist.
    ///
    /// # Errors
    /// One line when there is something at `path` that is no notebook, or no directory for it.
    pub fn open(fs: &Arc<dyn Fs>, path: &Path) -> Result<NotebookFile, String> {
        let mut file = NotebookFile { fs: Arc::clone(fs), path: path.to_owned() };
        let text = file.read().map_err(|why| format!("{}: {why}", path.display()))?;
        Notebook::parse(&text).map_err(|why| format!("{}: {why}", path.display()))?;
        OutputFile::whole(fs, path).map_err(|error| error.to_string())?;
        Ok(file)
    }
}

impl Page for NotebookFile {
    fn read(&mut self) -> io::Result<String> {
        match self.fs.metadata(&self.path) {
            // A device would be replaced by a file of its name.
            Ok(found) if found.kind != FileKind::File => {
                Err(io::Error::other("not a notebook, left as it is: no regular file"))
            }
            Ok(_) => self.fs.read_to_string(&self.path).map_err(as_io),
            Err(error) if error.is_not_found() => Ok(String::new()),
            Err(error) => Err(as_io(error)),
        }
    }

    fn replace(&mut self, text: &str) -> io::Result<()> {
        write_output(&self.fs, &self.path, text.as_bytes()).map_err(as_io)
    }
}
