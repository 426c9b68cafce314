//! A notebook in a file: read whole, replaced at one stroke.
//!
//! The new text goes to `FILE~`, is synced, and takes the name of the old one; then the directory
//! is synced. After a crash at any point the name stands for the whole old notebook or for the
//! whole new one. `FILE~` is overwritten where it exists: it is the name that the tool which this
//! format comes from uses too, and that people have in their `.gitignore`.
//!
//! A file that is no notebook is refused before anything is measured, and again at the end.

use crate::outputs::as_io;
use crate::sink::{Notebook, Page};
use keyrack_vfs::{FileKind, Fs, OpenOptions};
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
        let dir = match path.parent() {
            Some(dir) if dir != Path::new("") => dir,
            _ => Path::new("."),
        };
        match fs.metadata(dir) {
            Ok(found) if found.kind == FileKind::Dir => Ok(file),
            Ok(_) => Err(format!("{}: {} is no directory", path.display(), dir.display())),
            Err(error) => Err(format!("{}: {}", path.display(), as_io(error))),
        }
    }

    /// `FILE~`.
    fn new_path(&self) -> PathBuf {
        let mut name = self.path.as_os_str().to_owned();
        name.push("~");
        PathBuf::from(name)
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
        let new = self.new_path();
        let options = OpenOptions::new().write(true).create(true).truncate(true);
        let file = self.fs.open(&new, &options).map_err(as_io)?;
        let written = file.write_at(0, text.as_bytes()).and_then(|()| file.sync_all());
        drop(file);
        if let Err(error) = written.and_then(|()| self.fs.rename(&new, &self.path)) {
            // The first error is the one to report; a file that stays behind is harmless.
            let _ = self.fs.remove_file(&new);
            return Err(as_io(error));
        }
        self.fs.sync_parent(&self.path).map_err(as_io)
    }
}
