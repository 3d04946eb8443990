//! A W3C trace context, and new ids.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};

/// What a `traceparent` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Context {
    pub(super) trace_id: [u8; 16],
    pub(super) span_id: [u8; 8],
    pub(super) flags: u8,
}

/// The flag `sampled`.
pub(super) const SAMPLED: u8 = 1;

impl Context {
    /// Of a `traceparent` that decoding has let pass; nothing of anything else.
    pub(super) fn of(traceparent: &str) -> Option<Self> {
        let mut parts = traceparent.split('-').skip(1);
        let [trace, parent, flags] = [parts.next()?, parts.next()?, parts.next()?];
        Some(Self {
            trace_id: bytes(trace)?,
            span_id: bytes(parent)?,
            flags: u8::from_str_radix(flags, 16).ok()?,
        })
    }

    pub(super) const fn is_sampled(self) -> bool {
        self.flags & SAMPLED != 0
    }
}

fn bytes<const N: usize>(hex: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    if hex.len() != 2 * N || !hex.is_ascii() {
        return None;
    }
    for (place, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&hex[2 * place..2 * place + 2], 16).ok()?;
    }
    Some(bytes)
}

/// A number that nobody has had before, as far as 64 bits go: the standard library seeds each hasher
/// anew. Nothing depends on its being hard to guess.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// A new span id, never zero.
pub(super) fn span_id() -> [u8; 8] {
    random().max(1).to_be_bytes()
}

/// A new trace id, never zero.
pub(super) fn trace_id() -> [u8; 16] {
    let mut id = [0; 16];
    id[..8].copy_from_slice(&random().to_be_bytes());
    id[8..].copy_from_slice(&span_id());
    id
}

/// Whether a trace with this id is of the share that is sampled: the same one at every ratio above.
pub(super) fn is_in_share(trace_id: [u8; 16], ratio: f64) -> bool {
    let mut low = [0; 4];
    low.copy_from_slice(&trace_id[12..]);
    // 32 bits are exact in an f64, and fine enough for a share.
    f64::from(u32::from_be_bytes(low)) < ratio * 4_294_967_296.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_is_what_its_traceparent_says() {
        let trace = "0af7651916cd43dd8448eb211c80319c";
        for (traceparent, flags) in [
            (format!("00-{trace}-b7ad6b7169203331-01"), Some(1)),
            (format!("00-{trace}-b7ad6b7169203331-00"), Some(0)),
            (format!("cc-{trace}-b7ad6b7169203331-03-more-of-it"), Some(3)),
            (format!("00-{trace}-b7ad6b71692033-01"), None),
            ("00-ä".to_owned(), None),
            (String::new(), None),
        ] {
            let context = Context::of(&traceparent);
            assert_eq!(context.map(|context| context.flags), flags, "{traceparent}");
            if let Some(context) = context {
                assert_eq!(context.trace_id[..2], [0x0a, 0xf7]);
                assert_eq!(context.span_id[6..], [0x33, 0x31]);
                assert_eq!(context.is_sampled(), context.flags != 0);
            }
        }
    }

    #[test]
    fn ids_are_new_and_the_share_is_the_ratio() {
        let ids: Vec<_> = (0..2_000).map(|_| trace_id()).collect();
        let distinct: std::collections::HashSet<_> = ids.iter().collect();
        assert_eq!(distinct.len(), ids.len());
        for (ratio, least, most) in [(0.0, 0, 0), (0.25, 350, 650), (1.0, 2_000, 2_000)] {
            let within = ids.iter().filter(|id| is_in_share(**id, ratio)).count();
            assert!((least..=most).contains(&within), "{within} at {ratio}");
        }
    }
}
