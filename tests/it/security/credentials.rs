//! A `.creds` file, as NATS with decentralised accounts has it: an operator's, an account's and a
//! user's tokens, each signed by the one above it.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rcgen::{KeyPair, PKCS_ED25519, PublicKeyData as _, SigningKey as _};
use serde_json::{Value, json};

use crate::harness::command::ended;
use crate::harness::command::wakegate;
use crate::harness::nats::{JetStream, Nats};

const OPERATOR: u8 = 14 << 3;
const ACCOUNT: u8 = 0;
const USER: u8 = 20 << 3;
const SEED: u8 = 18 << 3;
/// Bytes of a key, and where its seed begins in PKCS#8.
const KEY_BYTES: usize = 32;
const SEED_AT: usize = 16;

/// A key as NATS writes it.
struct Key {
    pair: KeyPair,
    kind: u8,
}

impl Key {
    fn new(kind: u8) -> Self {
        Self { pair: KeyPair::generate_for(&PKCS_ED25519).unwrap(), kind }
    }

    fn public(&self) -> String {
        nkey(&[&[self.kind], self.pair.der_bytes()].concat())
    }

    fn seed(&self) -> String {
        let der = self.pair.serialize_der();
        let prefix = [SEED | (self.kind >> 5), (self.kind & 31) << 3];
        nkey(&[&prefix, &der[SEED_AT..SEED_AT + KEY_BYTES]].concat())
    }

    /// A token about `subject`, signed by this key.
    fn signs(&self, subject: &Key, nats: Value) -> String {
        let part = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let head = part(json!({ "typ": "JWT", "alg": "ed25519-nkey" }));
        let body = part(json!({
            "jti": "test", "iat": 1_700_000_000, "iss": self.public(), "sub": subject.public(),
            "name": "test", "nats": nats,
        }));
        let signed = format!("{head}.{body}");
        let signature = URL_SAFE_NO_PAD.encode(self.pair.sign(signed.as_bytes()).unwrap());
        format!("{signed}.{signature}")
    }
}

/// Base 32 of the bytes and their CRC-16 (XMODEM), low byte first.
fn nkey(bytes: &[u8]) -> String {
    let mut crc = 0_u16;
    for byte in bytes {
        crc ^= u16::from(*byte) << 8;
        for _ in 0..8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
        }
    }
    let bytes = [bytes, &crc.to_le_bytes()].concat();
    let mut text = String::new();
    let (mut held, mut bits) = (0_u32, 0);
    for byte in bytes {
        held = (held << 8) | u32::from(byte);
        bits += 8;
        while bits >= 5 {
            bits -= 5;
            text.push(char::from(
                b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"[(held >> bits & 31) as usize],
            ));
        }
    }
    if bits > 0 {
        let last = held << (5 - bits) & 31;
        text.push(char::from(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"[last as usize]));
    }
    text
}

fn account_of(limits: i32) -> Value {
    json!({ "type": "account", "version": 2, "limits": {
        "subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": true,
        "conn": -1, "leaf": -1, "mem_storage": limits, "disk_storage": limits,
        "streams": limits, "consumer": limits } })
}

fn creds(jwt: &str, seed: &str) -> String {
    format!(
        "-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n\
         -----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
    )
}

#[tokio::test]
async fn a_credentials_file_lets_in_and_another_s_does_not() {
    let (operator, system, account) = (Key::new(OPERATOR), Key::new(ACCOUNT), Key::new(ACCOUNT));
    let user = Key::new(USER);
    let mut config = String::new();
    let operator_jwt = operator.signs(&operator, json!({ "type": "operator", "version": 2 }));
    let _ = writeln!(config, "operator: {operator_jwt}");
    let _ = writeln!(config, "system_account: {}", system.public());
    let _ = writeln!(config, "resolver: MEMORY\nresolver_preload: {{");
    for (account, limits) in [(&system, 0), (&account, -1)] {
        let jwt = operator.signs(account, account_of(limits));
        let _ = writeln!(config, "  {}: {jwt}", account.public());
    }
    config.push_str("}\n");
    let nats = Nats::start_with(JetStream::On, &config).await;

    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("worker.creds");
    let claims = json!({ "type": "user", "version": 2, "pub": {}, "sub": {}, "subs": -1,
                         "data": -1, "payload": -1 });
    let jwt = account.signs(&user, claims.clone());
    let apply = |text: &str| {
        std::fs::write(&file, text).unwrap();
        ended(
            wakegate(directory.path(), &["streams", "apply"])
                .env("WAKEGATE_NATS_URL", nats.url())
                .env("WAKEGATE_NATS_CREDENTIALS_FILE", &file),
        )
    };
    let applied = apply(&creds(&jwt, &user.seed()));
    assert_eq!(applied.code, Some(0), "{}; {}", applied.stderr, nats.log());

    // A seed that is not the token's, and a token that the account did not sign.
    let (other, stranger) = (Key::new(USER), Key::new(ACCOUNT));
    let forged = stranger.signs(&user, claims);
    for (jwt, seed) in [(&jwt, other.seed()), (&forged, user.seed())] {
        let refused = apply(&creds(jwt, &seed));
        assert_eq!(refused.code, Some(1), "{}", refused.stderr);
        assert!(refused.stderr.contains("authorization violation"), "{}", refused.stderr);
        assert!(!refused.stderr.contains(&seed), "{}", refused.stderr);
    }
}
