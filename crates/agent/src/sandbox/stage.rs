//! Copies mounts into one folder that the command's user can reach, for bubblewrap when the server is root.
//!
//! Bubblewrap runs as an unprivileged user and cannot enter root's folders on the way to a workspace. In the copy of
//! the workspace, files of root appear as files of the command; on disk they stay root's. Start at [`MountCopies`]. The
//! module must not depend on the purpose of the copies.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// The folder of the copies in bubblewrap's mount namespace; it exists on every machine.
const FOLDER: &str = "/tmp";

/// Devices that are created for the command, with their numbers.
pub(crate) const DEVICES: &[(&str, u32, u32)] =
    &[("null", 1, 3), ("zero", 1, 5), ("full", 1, 7), ("random", 1, 8), ("urandom", 1, 9), ("tty", 5, 0)];

/// Copies of mounts.
#[derive(Debug, Default)]
pub(crate) struct MountCopies {
    copies: Vec<MountCopy>,
}

#[derive(Debug)]
struct MountCopy {
    path: PathBuf,
    mount: OwnedFd,
    is_folder: bool,
    target: PathBuf,
}

impl MountCopies {
    /// Copies the mount at a path. With `mapping`, files of root belong to the mapped user.
    pub(crate) fn add(&mut self, path: &Path, mapping: Option<&OwnedFd>) -> io::Result<()> {
        if self.target(path).is_some() {
            return Ok(());
        }
        let failed = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        let is_folder = path.metadata().map_err(failed)?.is_dir();
        let mount = copy_mount(path).map_err(failed)?;
        if let Some(mapping) = mapping {
            map_owner(&mount, mapping).map_err(|error| {
                io::Error::new(
                    error.kind(),
                    format!(
                        "the file system of {} does not support mapped users ({error}); use ext4, xfs, btrfs \
                         or tmpfs, run the server as an ordinary user, or set sandbox.mode to landlock",
                        path.display()
                    ),
                )
            })?;
        }
        let target = Path::new(FOLDER).join(self.copies.len().to_string());
        self.copies.push(MountCopy { path: path.to_owned(), mount, is_folder, target });
        Ok(())
    }

    /// The path of the copy.
    pub(crate) fn target(&self, path: &Path) -> Option<&Path> {
        self.copies.iter().find(|copy| copy.path == path).map(|copy| copy.target.as_path())
    }

    /// The path of a device that is created for the command.
    pub(crate) fn device(name: &str) -> PathBuf {
        Path::new(FOLDER).join("dev").join(name)
    }

    /// Mounts all copies and creates the devices, in a new mount namespace of this process.
    pub(crate) fn set(&self) -> io::Result<()> {
        let folder = CString::new(FOLDER)?;
        // SAFETY: every pointer is to a text that ends with a zero and lives beyond the call.
        #[expect(unsafe_code, reason = "there are no wrappers for these calls")]
        unsafe {
            check_result(libc::unshare(libc::CLONE_NEWNS))?;
            check_result(libc::mount(
                c"none".as_ptr(),
                c"/".as_ptr(),
                std::ptr::null(),
                libc::MS_REC | libc::MS_PRIVATE,
                std::ptr::null(),
            ))?;
            check_result(libc::mount(
                c"recount".as_ptr(),
                folder.as_ptr(),
                c"tmpfs".as_ptr(),
                libc::MS_NOSUID | libc::MS_NOEXEC,
                c"mode=0755,size=1m".as_ptr().cast(),
            ))?;
        }
        for copy in &self.copies {
            if copy.is_folder {
                std::fs::create_dir(&copy.target)?;
            } else {
                std::fs::write(&copy.target, "")?;
            }
            let target = text(&copy.target)?;
            // SAFETY: as above.
            #[expect(unsafe_code, reason = "there is no wrapper for this call")]
            unsafe {
                check_result(libc::syscall(
                    libc::SYS_move_mount,
                    copy.mount.as_raw_fd(),
                    c"".as_ptr(),
                    libc::AT_FDCWD,
                    target.as_ptr(),
                    MOVE_MOUNT_F_EMPTY_PATH,
                ))?;
            }
        }
        create_devices()?;
        // The modes and times of the devices cannot be changed either.
        let change = MountChange { set: MOUNT_ATTR_RDONLY, ..MountChange::default() };
        change_mount(libc::AT_FDCWD, &folder, 0, &change)
    }
}

fn create_devices() -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = Path::new(FOLDER).join("dev");
    std::fs::create_dir(&folder)?;
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o755))?;
    for (name, major, minor) in DEVICES {
        let path = MountCopies::device(name);
        let target = text(&path)?;
        // SAFETY: the text ends with a zero and lives beyond the call.
        #[expect(unsafe_code, reason = "there is no wrapper for it here")]
        unsafe {
            check_result(libc::mknod(target.as_ptr(), libc::S_IFCHR | 0o666, libc::makedev(*major, *minor)))?;
        }
        // Independent of the umask.
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666))?;
    }
    Ok(())
}

const OPEN_TREE_CLONE: libc::c_uint = 1;
const MOVE_MOUNT_F_EMPTY_PATH: libc::c_uint = 4;
const MOUNT_ATTR_RDONLY: u64 = 1;
const MOUNT_ATTR_IDMAP: u64 = 0x0010_0000;

/// `struct mount_attr` of the kernel.
#[repr(C)]
#[derive(Debug, Default)]
struct MountChange {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}

fn copy_mount(path: &Path) -> io::Result<OwnedFd> {
    let path = text(path)?;
    let flags = OPEN_TREE_CLONE | libc::O_CLOEXEC.unsigned_abs() | libc::AT_RECURSIVE.unsigned_abs();
    // SAFETY: the text lives beyond the call, and what it answers is ours.
    #[expect(unsafe_code, reason = "there is no wrapper for it")]
    unsafe {
        let number = libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, path.as_ptr(), flags);
        check_result(number)?;
        Ok(OwnedFd::from_raw_fd(i32::try_from(number).map_err(io::Error::other)?))
    }
}

fn map_owner(mount: &OwnedFd, mapping: &OwnedFd) -> io::Result<()> {
    let user_namespace = u64::from(mapping.as_raw_fd().unsigned_abs());
    let change = MountChange { set: MOUNT_ATTR_IDMAP, user_namespace, ..MountChange::default() };
    change_mount(mount.as_raw_fd(), c"", libc::AT_EMPTY_PATH | libc::AT_RECURSIVE, &change)
}

fn change_mount(folder: i32, path: &CStr, flags: i32, change: &MountChange) -> io::Result<()> {
    // SAFETY: both pointers are to values that live beyond the call, and the length is that of the second.
    #[expect(unsafe_code, reason = "there is no wrapper for it")]
    unsafe {
        check_result(libc::syscall(
            libc::SYS_mount_setattr,
            folder,
            path.as_ptr(),
            flags,
            std::ptr::from_ref(change),
            size_of::<MountChange>(),
        ))
    }
}

fn text(path: &Path) -> io::Result<CString> {
    Ok(CString::new(path.as_os_str().as_bytes())?)
}

fn check_result(result: impl Into<i64>) -> io::Result<()> {
    if result.into() < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
