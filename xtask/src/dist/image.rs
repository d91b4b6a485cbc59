//! The folder that an image is built from: the program for each processor, and the few files that an image without a system needs.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};

use super::{Release, fresh_folder};
use crate::child::output_of;

/// The certificates of authorities that this machine trusts: on Debian and macOS, and on Fedora.
const AUTHORITIES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/ssl/cert.pem", "/etc/pki/tls/certs/ca-bundle.crt"];

/// The user of the image, which owns nothing but the data.
const PASSWD: &str = "recount:x:65532:65532:Recount:/var/lib/recount:/usr/sbin/nologin\n";
const GROUP: &str = "recount:x:65532:\n";

/// Adds the program to the folder `image`, so that the programs of several processors come together.
pub(super) fn stage(release: &Release<'_>) -> Result<()> {
    ensure!(release.target.contains("-linux-"), "an image needs a program for Linux");
    let image = release.out.join("image");
    let program = image.join(release.processor()?);
    fresh_folder(&program)?;
    fresh_folder(&image.join("data/recount"))?;
    std::fs::copy(release.staged.join("recount"), program.join("recount"))?;
    let authorities = AUTHORITIES.iter().find(|file| Path::new(file).is_file());
    let authorities =
        authorities.context("this machine has no certificates of authorities; install ca-certificates")?;
    std::fs::copy(authorities, image.join("ca-certificates.crt"))?;
    std::fs::write(image.join("passwd"), PASSWD)?;
    std::fs::write(image.join("group"), GROUP)?;
    output_of(&image, &["chmod", "700", "data/recount"])?;
    output_of(&image, &["chmod", "755", &program.join("recount").to_string_lossy()])?;
    println!("image: {}", image.display());
    Ok(())
}
