//! TLS to nats-server: whom to trust, and what to show.

use std::path::PathBuf;

use async_nats::ConnectOptions;

use super::BrokerError;

/// What everything in PEM form begins with.
const PEM_BEGINS: &[u8] = b"-----BEGIN ";

/// PEM files for TLS. Without any, the system's certificates are trusted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// Certificates to trust instead of the system's; TLS is then a must.
    pub ca_file: Option<PathBuf>,
    /// This program's certificate.
    pub certificate_file: Option<PathBuf>,
    /// Its key.
    pub key_file: Option<PathBuf>,
}

/// The client reads the files at each attempt to connect, and would wait for one that is not there
/// as if for a server.
pub(super) fn secured(
    mut connect: ConnectOptions,
    tls: &TlsFiles,
) -> Result<ConnectOptions, BrokerError> {
    for file in [&tls.ca_file, &tls.certificate_file, &tls.key_file].into_iter().flatten() {
        let fault = |fault: String| BrokerError::Tls { file: file.clone(), fault };
        let text = std::fs::read(file).map_err(|error| fault(error.to_string()))?;
        if !text.windows(PEM_BEGINS.len()).any(|bytes| bytes == PEM_BEGINS) {
            return Err(fault("holds nothing in PEM form".to_owned()));
        }
    }
    if let Some(file) = &tls.ca_file {
        connect = connect.add_root_certificates(file.clone()).require_tls(true);
    }
    if let (Some(certificate), Some(key)) = (&tls.certificate_file, &tls.key_file) {
        connect = connect.add_client_certificate(certificate.clone(), key.clone());
    }
    Ok(connect)
}
