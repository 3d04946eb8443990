//! Certificates made for a test: an authority of its own, and another that signed none of them.

use std::path::PathBuf;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use tempfile::TempDir;

/// Certificates in PEM files.
pub struct Certificates {
    pub directory: TempDir,
}

/// An authority that signs what is asked of it.
fn authority(name: &str) -> (String, Issuer<'static, KeyPair>) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let certificate = params.self_signed(&key).unwrap();
    (certificate.pem(), Issuer::new(params, key))
}

impl Certificates {
    /// One authority's for a server at 127.0.0.1 and for a client, and another authority.
    pub fn make() -> Self {
        let certificates = Self { directory: tempfile::tempdir().unwrap() };
        let (pem, issuer) = authority("ours");
        certificates.write("ca.pem", &pem);
        certificates.write("other-ca.pem", &authority("another").0);
        for (name, host) in
            [("server", "127.0.0.1"), ("elsewhere", "10.0.0.1"), ("client", "worker")]
        {
            let key = KeyPair::generate().unwrap();
            let mut params = CertificateParams::new(vec![host.to_owned()]).unwrap();
            params.distinguished_name.push(DnType::CommonName, name);
            let certificate = params.signed_by(&key, &issuer).unwrap();
            certificates.write(&format!("{name}.pem"), &certificate.pem());
            certificates.write(&format!("{name}.key"), &key.serialize_pem());
        }
        certificates
    }

    /// Writes a file that nobody else may read.
    pub fn write(&self, name: &str, pem: &str) {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::write(self.path(name), pem).unwrap();
        // PostgreSQL starts with no key that others may read.
        let private = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(self.path(name), private).unwrap();
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}
