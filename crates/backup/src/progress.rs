//! How far a backup, a verification or a restoration is.

/// How far it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// Files that are done.
    pub files: u64,
    /// Files in all.
    pub files_total: u64,
    /// Bytes of the files that are done, and what is done of the next one.
    pub bytes: u64,
    /// Bytes of all files.
    pub bytes_total: u64,
}

/// Who is told.
pub(crate) type Watch<'a> = dyn FnMut(Progress) + 'a;

impl Progress {
    pub(crate) fn begin(files: usize, bytes: u64) -> Progress {
        Progress { files_total: files as u64, bytes_total: bytes, ..Progress::default() }
    }

    /// Tells of bytes of the next file.
    pub(crate) fn watched<'a>(self, watch: &'a mut Watch<'_>) -> impl FnMut(u64) + 'a {
        let mut now = self;
        move |bytes| {
            now.bytes = now.bytes.saturating_add(bytes);
            watch(now);
        }
    }

    /// Tells that a file of so many bytes is done.
    pub(crate) fn end_file(&mut self, bytes: u64, watch: &mut Watch<'_>) {
        self.files += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        watch(*self);
    }
}
