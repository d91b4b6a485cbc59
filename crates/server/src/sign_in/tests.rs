//! Sign-in against a small provider that signs what a test wants: real HTTP, real keys, and ID tokens that must be refused.

use std::sync::{Arc, Mutex};

use axum::extract::State;
use axum::response::IntoResponse as _;
use axum::routing::{get, post};
use axum::{Json, Router};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::StatusCode;
use recount_event::codec;
use reqwest::header::{COOKIE, LOCATION, SET_COOKIE};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::jwt::{Jwks, JwtFault};
use crate::start::{EmbeddedServer, start_embedded};
use crate::{Options, limits};

fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn ed25519() -> Ed25519KeyPair {
    let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
    Ed25519KeyPair::from_pkcs8(document.as_ref()).unwrap()
}

fn jwk(key: &Ed25519KeyPair, id: &str) -> Value {
    json!({"kty": "OKP", "crv": "Ed25519", "use": "sig", "kid": id, "x": encode(key.public_key())})
}

/// A client that uses each connection once, because tests move the clock.
fn http_client() -> reqwest::Client {
    rustls::crypto::ring::default_provider().install_default().ok();
    let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none());
    client.tls_certs_only([]).pool_max_idle_per_host(0).build().unwrap()
}

/// A token with this header and these claims.
fn signed(header: &Value, claims: &Value, sign: impl Fn(&[u8]) -> Vec<u8>) -> String {
    let text = format!("{}.{}", encode(header.to_string()), encode(claims.to_string()));
    format!("{text}.{}", encode(sign(text.as_bytes())))
}

/// What the provider does next.
struct Script {
    keys: Value,
    /// The body of the next response with tokens, and its status.
    issued: (u16, Value),
    /// Forms that came to its endpoints.
    forms: Vec<String>,
    keys_fetched: usize,
}

#[derive(Clone)]
struct Issuer {
    url: String,
    script: Arc<Mutex<Script>>,
}

impl Issuer {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let script =
            Script { keys: json!([]), issued: (500, Value::Null), forms: Vec::new(), keys_fetched: 0 };
        let issuer = Issuer { url, script: Arc::new(Mutex::new(script)) };
        let router = Router::new()
            .route("/.well-known/openid-configuration", get(Issuer::discover))
            .route("/keys", get(Issuer::keys))
            .route("/token", post(Issuer::token))
            .route("/device", post(Issuer::device))
            .with_state(issuer.clone());
        #[expect(clippy::disallowed_methods, reason = "the provider of a test ends with its runtime")]
        tokio::spawn(async move { axum::serve(listener, router).await });
        issuer
    }

    async fn discover(State(issuer): State<Issuer>) -> Json<Value> {
        let url = &issuer.url;
        Json(json!({
            "issuer": url, "authorization_endpoint": format!("{url}/authorize?from=test"), "token_endpoint": format!("{url}/token"),
            "jwks_uri": format!("{url}/keys"), "device_authorization_endpoint": format!("{url}/device"),
            "authorization_response_iss_parameter_supported": true,
        }))
    }

    async fn keys(State(issuer): State<Issuer>) -> Json<Value> {
        let mut script = issuer.script.lock().unwrap();
        script.keys_fetched += 1;
        Json(json!({ "keys": script.keys }))
    }

    async fn token(State(issuer): State<Issuer>, form: String) -> axum::response::Response {
        let mut script = issuer.script.lock().unwrap();
        script.forms.push(form);
        let (status, body) = script.issued.clone();
        (StatusCode::from_u16(status).unwrap(), Json(body)).into_response()
    }

    async fn device(State(issuer): State<Issuer>, form: String) -> Json<Value> {
        issuer.script.lock().unwrap().forms.push(form);
        Json(json!({
            "device_code": "of-the-provider", "user_code": "AB-CD", "verification_uri": format!("{}/go", issuer.url),
            "expires_in": 600, "interval": 1,
        }))
    }

    fn list_keys(&self, keys: &[Value]) {
        self.script.lock().unwrap().keys = json!(keys);
    }

    fn issue(&self, id_token: &str) {
        self.script.lock().unwrap().issued = (200, json!({"id_token": id_token, "access_token": "a"}));
    }

    fn claims(&self, nonce: &str) -> Value {
        let now = recount_world::World::real().clock.now_ms() / 1_000;
        json!({
            "iss": self.url, "aud": "recount", "sub": "ada", "exp": now + 300, "iat": now, "nonce": nonce, "groups": ["staff"],
            "email": "ada@example.org", "email_verified": true,
        })
    }
}

/// A server and its provider.
struct Setting {
    issuer: Issuer,
    server: EmbeddedServer,
    http: reqwest::Client,
    _data: tempfile::TempDir,
}

/// A browser that was sent to the provider.
#[derive(Clone)]
struct Attempt {
    cookie: String,
    state: String,
    nonce: String,
}

impl Setting {
    async fn start() -> Self {
        let issuer = Issuer::start().await;
        let data = tempfile::tempdir().unwrap();
        let file = data.path().join("c.toml");
        let text = format!(
            "public_url = 'http://127.0.0.1:1'\n[access]\nrequire_token = true\n[sign_in]\nissuer = '{}'\n\
             client_id = 'recount'\n[[sign_in.grants]]\ngroup = 'staff'\nscopes = ['read']\n",
            issuer.url
        );
        std::fs::write(&file, text).unwrap();
        let options = Options {
            bind: Some("127.0.0.1:0".into()),
            data: Some(data.path().join("data")),
            config: Some(file),
            ..Options::default()
        };
        let server = start_embedded(options).await.unwrap();
        Setting { issuer, server, http: http_client(), _data: data }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.server.running.address)
    }

    /// A browser begins.
    async fn begin(&self) -> Attempt {
        let response = self.http.get(self.url("/sign-in")).send().await.unwrap();
        assert_eq!(response.status(), 303);
        let location: reqwest::Url = response.headers()[LOCATION].to_str().unwrap().parse().unwrap();
        let value = |name: &str| {
            let found = location.query_pairs().find(|(found, _)| found == name);
            found.unwrap_or_else(|| panic!("{name} in {location}")).1.into_owned()
        };
        assert_eq!((value("from"), value("code_challenge_method")), ("test".into(), "S256".into()));
        assert_eq!(value("redirect_uri"), "http://127.0.0.1:1/sign-in/callback");
        let cookie = response.headers()[SET_COOKIE].to_str().unwrap().split(';').next().unwrap().to_owned();
        Attempt { cookie, state: value("state"), nonce: value("nonce") }
    }

    /// A browser comes back. Returns the code for the console, or status and page.
    async fn arrive(&self, attempt: &Attempt) -> Result<String, (u16, String)> {
        let query = format!("code=c&state={}&iss={}", attempt.state, self.issuer.url);
        self.arrive_with(&query, &attempt.cookie).await
    }

    async fn arrive_with(&self, query: &str, cookie: &str) -> Result<String, (u16, String)> {
        let request = self.http.get(self.url(&format!("/sign-in/callback?{query}"))).header(COOKIE, cookie);
        let response = request.send().await.unwrap();
        match response.headers().get(LOCATION) {
            Some(location) => {
                let code = location.to_str().unwrap().strip_prefix("http://127.0.0.1:1/#sign-in=");
                Ok(code.unwrap().to_owned())
            }
            None => Err((response.status().as_u16(), response.text().await.unwrap())),
        }
    }

    async fn post(&self, path: &str, cookie: &str, body: &Value) -> (u16, Value) {
        let request =
            self.http.post(self.url(path)).header(COOKIE, cookie).header("content-type", "application/json");
        let response = request.body(body.to_string()).send().await.unwrap();
        let status = response.status().as_u16();
        (status, serde_json::from_slice(&response.bytes().await.unwrap()).unwrap())
    }

    /// Ends the audit trail and returns its refusals, as code and count.
    async fn refusals(self) -> Vec<(String, u64)> {
        let audit = self.server.running.gate.tenants.audit().unwrap().clone();
        audit.end().await;
        let (events, _) = audit.engine().read().read_feed(None, 200).await.unwrap();
        let mut found: Vec<(String, u64)> = Vec::new();
        for (_, bytes) in &events {
            if codec::decode(bytes).unwrap().type_name() != "ext.recount.access_refused" {
                continue;
            }
            let event: Value = serde_json::from_slice(bytes).unwrap();
            let (code, count) =
                (event["data"]["code"].as_str().unwrap(), event["data"]["times"].as_u64().unwrap());
            match found.iter_mut().find(|(known, _)| known == code) {
                Some((_, sum)) => *sum += count,
                None => found.push((code.to_owned(), count)),
            }
        }
        found.sort();
        self.server.running.stop().await;
        found
    }
}

#[tokio::test]
async fn only_whole_current_id_tokens_of_the_provider_sign_in() {
    let setting = Setting::start().await;
    let (key, other) = (ed25519(), ed25519());
    setting.issuer.list_keys(&[jwk(&key, "k1")]);
    let header = json!({"alg": "EdDSA", "kid": "k1", "typ": "JWT"});
    let by = |key: &Ed25519KeyPair, text: &[u8]| key.sign(text).as_ref().to_vec();
    let hmac = |text: &[u8]| {
        let secret = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, key.public_key().as_ref());
        ring::hmac::sign(&secret, text).as_ref().to_vec()
    };
    let now = setting.issuer.claims("")["iat"].as_u64().unwrap();
    let alg = |name: &str| json!({"alg": name, "kid": "k1"});
    let (none, mac, unknown) = (alg("none"), alg("HS256"), json!({"alg": "EdDSA", "kid": "k2"}));
    let access_token = json!({"alg": "EdDSA", "kid": "k1", "typ": "at+jwt"});
    for (name, header, changes, cut, status, words) in [
        ("good", &header, json!({}), 0, 0, ""),
        ("without a key id", &json!({"alg": "EdDSA"}), json!({}), 0, 0, ""),
        ("expired", &header, json!({"exp": now - 61}), 0, 400, "This sign-in has expired"),
        ("other nonce", &header, json!({"nonce": "n"}), 0, 400, "This sign-in was already used"),
        ("no nonce", &header, json!({"nonce": null}), 0, 400, "This sign-in was already used"),
        ("other issuer", &header, json!({"iss": "https://evil.example"}), 0, 403, "from another issuer"),
        ("other audience", &header, json!({"aud": "other"}), 0, 403, "for another client"),
        (
            "other party",
            &header,
            json!({"aud": ["recount", "x"], "azp": "x"}),
            0,
            403,
            "issued to another client",
        ),
        ("from the future", &header, json!({"iat": now + 900}), 0, 403, "from the future"),
        ("alg none", &none, json!({}), 0, 403, "algorithm is not accepted"),
        ("alg none, no signature", &none, json!({}), 86, 403, "algorithm is not accepted"),
        ("public key as secret", &mac, json!({}), 0, 403, "algorithm is not accepted"),
        ("another algorithm", &alg("RS256"), json!({}), 0, 403, "does not list"),
        ("unknown key", &unknown, json!({}), 0, 403, "does not list"),
        ("cut signature", &header, json!({}), 6, 403, "signature is wrong"),
        ("no signature", &header, json!({}), 86, 403, "signature is wrong"),
        ("access token", &access_token, json!({}), 0, 403, "not an ID token"),
        ("no group", &header, json!({"groups": ["guests"]}), 0, 403, "You have no access to this server"),
    ] {
        let attempt = setting.begin().await;
        let mut claims = setting.issuer.claims(&attempt.nonce);
        claims.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        let token =
            signed(
                header,
                &claims,
                |text| if header["alg"] == "HS256" { hmac(text) } else { by(&key, text) },
            );
        setting.issuer.issue(&token[..token.len() - cut]);
        match setting.arrive(&attempt).await {
            Ok(_) => assert_eq!(status, 0, "{name}: signed in"),
            Err((found, page)) => {
                assert!(found == status && page.contains(words), "{name}: {found} {page}");
                assert!(!page.contains("EdDSA") && !page.contains(&token[..40]), "{name}: {page}");
            }
        }
    }
    // Signed with a foreign key under a known id, and changed after it was signed.
    for foreign in [true, false] {
        let attempt = setting.begin().await;
        let claims = setting.issuer.claims(&attempt.nonce);
        let signer = if foreign { &other } else { &key };
        let token = signed(&header, &claims, |text| by(signer, text));
        let boss = encode(claims.to_string().replace("staff", "staff2"));
        let parts: Vec<&str> = token.split('.').collect();
        let changed = format!("{}.{boss}.{}", parts[0], parts[2]);
        setting.issuer.issue(if foreign { &token } else { &changed });
        let (status, page) = setting.arrive(&attempt).await.unwrap_err();
        assert!(status == 403 && page.contains("signature is wrong"), "{page}");
    }
    // The provider refuses a code that was used before.
    let attempt = setting.begin().await;
    setting.issuer.script.lock().unwrap().issued = (400, json!({"error": "invalid_grant"}));
    let (status, page) = setting.arrive(&attempt).await.unwrap_err();
    assert!(status == 400 && page.contains("This sign-in was already used"), "{page}");
    let refusals = setting.refusals().await;
    let counts = |name: &str| refusals.iter().find(|(code, _)| code == name).map(|(_, count)| *count);
    assert_eq!(counts("sign_in_expired"), Some(1), "{refusals:?}");
    assert_eq!(counts("sign_in_replayed"), Some(3), "{refusals:?}");
    assert_eq!(counts("sign_in_forged"), Some(14), "{refusals:?}");
    assert_eq!(counts("sign_in_no_grant"), Some(1), "{refusals:?}");
}

#[tokio::test]
async fn state_and_codes_work_once_and_in_one_browser() {
    let setting = Setting::start().await;
    let key = ed25519();
    setting.issuer.list_keys(&[jwk(&key, "k1")]);
    let issue = |attempt: &Attempt| {
        let claims = setting.issuer.claims(&attempt.nonce);
        let header = json!({"alg": "EdDSA", "kid": "k1"});
        setting.issuer.issue(&signed(&header, &claims, |text| key.sign(text).as_ref().to_vec()));
    };
    let (attempt, other) = (setting.begin().await, setting.begin().await);
    issue(&attempt);
    let query = format!("code=c&state={}", attempt.state);
    let ours = format!("iss={}", setting.issuer.url);
    for (query, cookie, heading) in [
        // Of another browser, of none, and of another attempt.
        (format!("{query}&{ours}"), other.cookie.as_str(), "cannot be continued"),
        (format!("{query}&{ours}"), "", "cannot be continued"),
        (format!("code=c&state={}&{ours}", other.state), &attempt.cookie, "cannot be continued"),
        (format!("code=c&{ours}"), &attempt.cookie, "cannot be continued"),
        (format!("{query}&state={}&{ours}", attempt.state), &attempt.cookie, "cannot be continued"),
    ] {
        let (status, page) = setting.arrive_with(&query, cookie).await.unwrap_err();
        assert!(status == 400 && page.contains(heading), "{query}: {page}");
    }
    assert!(setting.issuer.script.lock().unwrap().forms.is_empty(), "no code was sent to the provider");
    let code = setting.arrive(&attempt).await.unwrap();
    let (status, page) = setting.arrive(&attempt).await.unwrap_err();
    assert!(status == 400 && page.contains("This sign-in was already used"), "{page}");
    let form = setting.issuer.script.lock().unwrap().forms.join(" ");
    assert!(form.contains("code_verifier=") && form.contains("client_id=recount"), "{form}");

    // A response of another provider, or of none, although this one names itself.
    for issuer in ["", "&iss=https%3A%2F%2Fevil.example"] {
        let mixed = setting.begin().await;
        let query = format!("code=c&state={}{issuer}", mixed.state);
        let (status, page) = setting.arrive_with(&query, &mixed.cookie).await.unwrap_err();
        assert!(status == 403 && page.contains("from another provider"), "{page}");
    }
    let refused = setting.begin().await;
    let query = format!("error=access_denied&error_description=%3Cb%3E&state={}&{ours}", refused.state);
    let (status, page) = setting.arrive_with(&query, &refused.cookie).await.unwrap_err();
    assert!(status == 403 && page.contains("access_denied") && !page.contains("<b>"), "{page}");
    // Only a person uses a sign-in up: clients without an account cannot fill the table.
    issue(&refused);
    setting.arrive(&refused).await.unwrap();

    let body = json!({ "code": code });
    let (status, problem) = setting.post("/sign-in/token", &other.cookie, &body).await;
    assert_eq!((status, &problem["code"]), (400, &json!("sign_in_invalid")), "{problem}");
    let foreign = json!({"code": code, "tenant": "acme"});
    let (status, problem) = setting.post("/sign-in/token", &attempt.cookie, &foreign).await;
    assert_eq!((status, &problem["code"]), (403, &json!("sign_in_denied")), "{problem}");
    let (status, reply) = setting.post("/sign-in/token", &attempt.cookie, &body).await;
    assert_eq!((status, &reply["data"]["status"]), (200, &json!("signed_in")), "{reply}");
    let token = &reply["data"]["token"];
    assert_eq!((&token["name"], &token["scopes"]), (&json!("ada@example.org"), &json!(["read"])));
    let (status, problem) = setting.post("/sign-in/token", &attempt.cookie, &body).await;
    assert_eq!((status, &problem["code"]), (400, &json!("sign_in_invalid")), "{problem}");
    assert!(problem["detail"].as_str().unwrap().contains("already used"), "{problem}");
    let unknown = json!({"code": "0".repeat(64)});
    assert_eq!(setting.post("/sign-in/token", &attempt.cookie, &unknown).await.0, 400);

    // The token is an ordinary one until its person signs out.
    let bearer = format!("Bearer {}", token["secret"].as_str().unwrap());
    let listed = || setting.http.get(setting.url("/v1/runs")).header("authorization", &bearer).send();
    assert_eq!(listed().await.unwrap().status(), 200);
    let end = setting.http.delete(setting.url("/sign-in/session")).header("authorization", &bearer);
    assert_eq!(end.send().await.unwrap().status(), 200);
    assert_eq!(listed().await.unwrap().status(), 401);
    setting.server.running.stop().await;
}

#[tokio::test]
async fn new_keys_of_the_provider_are_fetched_but_not_for_every_token() {
    let setting = Setting::start().await;
    let (old, new) = (ed25519(), ed25519());
    setting.issuer.list_keys(&[jwk(&old, "old")]);
    let arrive = async |key: &Ed25519KeyPair, id: &str| {
        let attempt = setting.begin().await;
        let claims = setting.issuer.claims(&attempt.nonce);
        let header = json!({"alg": "EdDSA", "kid": id});
        setting.issuer.issue(&signed(&header, &claims, |text| key.sign(text).as_ref().to_vec()));
        setting.arrive(&attempt).await.map(drop).map_err(|(status, _)| status)
    };
    let fetched = || setting.issuer.script.lock().unwrap().keys_fetched;
    assert_eq!(arrive(&old, "old").await, Ok(()));
    setting.issuer.list_keys(&[jwk(&new, "new")]);
    // The keys were fetched a moment ago.
    assert_eq!((arrive(&new, "new").await, fetched()), (Err(403), 1));
    tokio::time::pause();
    tokio::time::advance(limits::SIGN_IN_KEYS_EVERY).await;
    tokio::time::resume();
    assert_eq!((arrive(&new, "new").await, fetched()), (Ok(()), 2));
    assert_eq!((arrive(&old, "old").await, fetched()), (Err(403), 2), "the key was withdrawn");
    setting.server.running.stop().await;
}

#[tokio::test]
async fn a_device_flow_is_polled_at_the_pace_of_the_provider() {
    let setting = Setting::start().await;
    let key = ed25519();
    setting.issuer.list_keys(&[jwk(&key, "k1")]);
    let next_second = async || {
        tokio::time::pause();
        tokio::time::advance(limits::SIGN_IN_DEVICE_EVERY_MAX).await;
        tokio::time::resume();
    };
    let response = setting.http.post(setting.url("/sign-in/device")).send().await.unwrap();
    assert_eq!(response.status(), 201);
    let started: Value = serde_json::from_slice(&response.bytes().await.unwrap()).unwrap();
    let started = &started["data"];
    assert_eq!((&started["user_code"], &started["interval_seconds"]), (&json!("AB-CD"), &json!(1)));
    let code = started["device_code"].as_str().unwrap();
    assert_ne!(code, "of-the-provider");
    let body = json!({ "device_code": code });
    let poll = async || {
        let (status, reply) = setting.post("/sign-in/device/token", "", &body).await;
        (status, reply["data"]["status"].clone(), reply["data"]["interval_seconds"].clone(), reply)
    };
    let forms = || setting.issuer.script.lock().unwrap().forms.len();
    let respond = |error: &str| setting.issuer.script.lock().unwrap().issued = (400, json!({"error": error}));
    respond("authorization_pending");
    let (status, found, every, _) = poll().await;
    assert_eq!((status, found, every), (200, json!("pending"), json!(1)));
    let before = forms();
    assert_eq!(poll().await.1, "pending");
    assert_eq!(forms(), before, "too early for the provider");
    next_second().await;
    respond("slow_down");
    assert_eq!(poll().await.2, json!(6));
    next_second().await;
    setting.issuer.script.lock().unwrap().issued = (503, json!("no"));
    let (status, .., problem) = poll().await;
    assert_eq!((status, &problem["code"]), (503, &json!("sign_in_unavailable")));
    next_second().await;
    let mut claims = setting.issuer.claims("");
    claims.as_object_mut().unwrap().remove("nonce");
    setting.issuer.issue(&signed(&json!({"alg": "EdDSA"}), &claims, |text| key.sign(text).as_ref().to_vec()));
    let (status, found, _, reply) = poll().await;
    assert_eq!((status, found), (200, json!("signed_in")), "{reply}");
    next_second().await;
    let (status, .., problem) = poll().await;
    assert_eq!((status, &problem["code"]), (400, &json!("sign_in_invalid")), "used before: {problem}");
    setting.server.running.stop().await;
}

#[tokio::test]
async fn a_provider_that_is_down_or_is_another_one_is_named() {
    let setting = Setting::start().await;
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let get = async |issuer: &str| {
        let data = tempfile::tempdir().unwrap();
        let file = data.path().join("c.toml");
        let text = format!(
            "public_url = 'http://127.0.0.1:1'\n[access]\nrequire_token = true\n[sign_in]\nissuer = '{issuer}'\nclient_id = \
             'recount'\n[[sign_in.grants]]\ngroup = 'staff'\nscopes = ['read']\n"
        );
        std::fs::write(&file, text).unwrap();
        let options = Options {
            bind: Some("127.0.0.1:0".into()),
            data: Some(data.path().join("data")),
            config: Some(file),
            ..Options::default()
        };
        let server = start_embedded(options).await.unwrap();
        let url = |path: &str| format!("http://{}{path}", server.running.address);
        let response = setting.http.get(url("/sign-in")).send().await.unwrap();
        let status = response.status().as_u16();
        let retry = response.headers().contains_key("retry-after");
        let page = response.text().await.unwrap();
        assert_eq!(setting.http.get(url("/healthz")).send().await.unwrap().status(), 200);
        server.running.stop().await;
        (status, retry, page)
    };
    let (status, retry, page) = get(&format!("http://{free}")).await;
    assert!(status == 503 && retry && page.contains("The sign-in provider is not available"), "{page}");
    // The same provider under another name.
    let other = setting.issuer.url.replace("127.0.0.1", "localhost");
    let (status, _, page) = get(&other).await;
    assert!(status == 503 && page.contains("its discovery names the issuer"), "{page}");
    setting.server.running.stop().await;
}

#[test]
fn each_key_verifies_only_its_own_algorithm() {
    let random = SystemRandom::new();
    let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
    let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, document.as_ref(), &random).unwrap();
    let (x, y) = key.public_key().as_ref()[1..].split_at(32);
    let jwks = |change: &dyn Fn(&mut Value)| {
        let mut jwk = json!({"kty": "EC", "crv": "P-256", "kid": "e", "x": encode(x), "y": encode(y)});
        change(&mut jwk);
        let other = json!({"kty": "unknown"});
        Jwks::parse(json!({"keys": [other, jwk]}).to_string().as_bytes()).unwrap()
    };
    let sign = |text: &[u8]| key.sign(&random, text).unwrap().as_ref().to_vec();
    let token = |header: Value| signed(&header, &json!({"sub": "s"}), sign);
    let plain = jwks(&|_| {});
    assert!(plain.verify(&token(json!({"alg": "ES256", "kid": "e"}))).is_ok());
    assert_eq!(plain.verify(&token(json!({"alg": "EdDSA", "kid": "e"}))), Err(JwtFault::UnknownKey));
    assert_eq!(plain.verify(&token(json!({"alg": "ES384", "kid": "e"}))), Err(JwtFault::Algorithm));
    assert!(matches!(
        plain.verify(&token(json!({"alg": "ES256", "crit": ["b64"]}))),
        Err(JwtFault::Malformed(_))
    ));
    for (name, value) in [("use", "enc"), ("alg", "ES384"), ("kid", "f"), ("crv", "P-384")] {
        let changed = jwks(&|jwk| jwk[name] = json!(value));
        let found = changed.verify(&token(json!({"alg": "ES256", "kid": "e"})));
        assert_eq!(found, Err(JwtFault::UnknownKey), "{name}");
    }
    for text in
        ["", "a.b", "a.b.c", "a.b.c.d", "e30.e30.", &"a".repeat(limits::SIGN_IN_ID_TOKEN_BYTES_MAX + 1)]
    {
        assert!(matches!(plain.verify(text), Err(JwtFault::Malformed(_))), "{text:.20}");
    }
    assert!(Jwks::parse(b"{}").is_none());
}
