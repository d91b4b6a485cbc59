//! Signs messages as Standard Webhooks does. Pure. See [`sign`].

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;

/// The value of `webhook-signature`: HMAC-SHA256 over id, time and body.
pub(super) fn sign(key: &[u8], id: &str, timestamp: u64, body: &[u8]) -> String {
    let mut signed = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, key));
    signed.update(format!("{id}.{timestamp}.").as_bytes());
    signed.update(body);
    format!("v1,{}", STANDARD.encode(signed.sign()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::WebhookSecret;

    #[test]
    fn a_signature_is_that_of_the_specification() {
        // The example of the reference libraries.
        let secret = WebhookSecret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let signature =
            sign(&secret.key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, br#"{"test": 2432232314}"#);
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }
}
