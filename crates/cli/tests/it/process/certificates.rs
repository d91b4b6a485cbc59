//! Certificates of an authority that only one test knows.

use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, Certificate, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, "authority of a test");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Authority { issuer: CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap() }
    }

    /// Writes the certificate of the authority, which clients may trust.
    pub(crate) fn write(&self, folder: &Path) -> PathBuf {
        let path = folder.join("authority.pem");
        std::fs::write(&path, self.issuer.pem()).unwrap();
        path
    }

    /// A certificate for some names, and its key.
    pub(crate) fn issue(&self, names: &[&str]) -> (Certificate, KeyPair) {
        let key = KeyPair::generate().unwrap();
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let params = CertificateParams::new(names).unwrap();
        (params.signed_by(&key, &self.issuer).unwrap(), key)
    }

    /// Writes a certificate for this machine and its key as a server reads them.
    pub(crate) fn issue_files(&self, cert: &Path, key: &Path) {
        let (certificate, private) = self.issue(&["localhost", "127.0.0.1"]);
        std::fs::write(key, private.serialize_pem()).unwrap();
        std::fs::write(cert, certificate.pem()).unwrap();
    }
}
