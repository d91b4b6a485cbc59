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

    /// A certificate for `localhost`, and its key.
    pub(crate) fn issue(&self) -> (Certificate, KeyPair) {
        let key = KeyPair::generate().unwrap();
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let params = CertificateParams::new(names).unwrap();
        (params.signed_by(&key, &self.issuer).unwrap(), key)
    }

    /// Writes a certificate for `localhost` and its key as a server reads them.
    pub(crate) fn issue_files(&self, cert: &Path, key: &Path) {
        let (certificate, private) = self.issue();
        std::fs::write(key, private.serialize_pem()).unwrap();
        std::fs::write(cert, certificate.pem()).unwrap();
    }
}
