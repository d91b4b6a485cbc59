//! A file that is there under its name only when it is whole. See [`Partial`].

use std::fs::File;
use std::io::{self, BufWriter, Seek as _, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Written beside its place, moved there when it is whole and on disk, and removed when it is given up.
pub struct Partial {
    path: PathBuf,
    beside: PathBuf,
    file: BufWriter<File>,
    is_whole: bool,
}

impl Partial {
    /// Begins a file; an error names why its name cannot be used.
    pub fn begin(path: &Path) -> Result<Self, String> {
        let name = path.file_name().ok_or_else(|| format!("{} is not a file name", path.display()))?;
        let mut partial = name.to_owned();
        partial.push(format!(".{}.partial", std::process::id()));
        let beside = path.with_file_name(partial);
        let file =
            File::create_new(&beside).map_err(|why| format!("cannot write {}: {why}", beside.display()))?;
        Ok(Partial { path: path.to_owned(), beside, file: BufWriter::new(file), is_whole: false })
    }

    pub fn line(&mut self, line: &str) -> io::Result<()> {
        self.file.write_all(line.as_bytes())?;
        self.file.write_all(b"\n")?;
        Ok(())
    }

    /// How much was written so far.
    pub fn length(&mut self) -> io::Result<u64> {
        self.file.stream_position()
    }

    /// Takes back what was written after the first so many bytes.
    pub fn cut(&mut self, length: u64) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(length))?;
        self.file.get_ref().set_len(length)?;
        Ok(())
    }

    pub fn finish(self) -> io::Result<()> {
        let path = self.path.clone();
        self.move_to(&path)
    }

    /// Keeps what lacks something: as `NAME.partial`, so that what stands under the name itself is never less than
    /// whole. Answers where it is.
    pub fn finish_incomplete(self) -> io::Result<PathBuf> {
        let mut name = self.path.file_name().unwrap_or_default().to_owned();
        name.push(".partial");
        let path = self.path.with_file_name(name);
        self.move_to(&path)?;
        Ok(path)
    }

    fn move_to(mut self, path: &Path) -> io::Result<()> {
        self.file.flush()?;
        self.file.get_ref().sync_all()?;
        std::fs::rename(&self.beside, path)?;
        self.is_whole = true;
        let folder = match self.path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        // Elsewhere a folder cannot be opened as a file.
        if cfg!(unix) {
            File::open(folder)?.sync_all()?;
        }
        Ok(())
    }
}

impl Write for Partial {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if !self.is_whole {
            // Nothing more can be done about a file that cannot be removed; its name ends in `.partial`.
            drop(std::fs::remove_file(&self.beside));
        }
    }
}
