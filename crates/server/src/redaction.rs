//! Collects the known secrets: values of environment variables with secret-sounding names, and those that the
//! configuration names.
//!
//! The configuration names variables and files, not values. A message here has at most the length of a value. See
//! [`Redaction`].

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use recount_engine::Redactor;
use recount_redact::{Refused, Secret};

use crate::StartError;
use crate::limits::{PLAIN_WORD_BYTES_MAX, SECRET_FILE_BYTES_MAX};

/// The configured masking.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redaction {
    /// Whether texts with the shape of a secret are masked.
    pub detectors: bool,
    /// Whether the values of variables with secret-sounding names are masked.
    pub environment: bool,
    /// Further variables whose values are masked.
    pub secret_env: Vec<String>,
    /// Files whose contents are masked.
    pub secret_files: Vec<PathBuf>,
}

impl Default for Redaction {
    fn default() -> Self {
        Redaction { detectors: true, environment: true, secret_env: Vec::new(), secret_files: Vec::new() }
    }
}

/// Warnings for the log about values that are not masked although an operator may expect it.
pub(crate) type UnmaskedNotes = Vec<String>;

impl Redaction {
    /// Reads all secrets once. `keys` are the keys of model providers and the defaults of secret options.
    pub(crate) fn redactor(
        &self,
        environment: impl Iterator<Item = (OsString, OsString)>,
        keys: &[recount_agent::model::Secret],
    ) -> Result<(Arc<Redactor>, UnmaskedNotes), StartError> {
        let mut known = Vec::new();
        let mut notes = Vec::new();
        let mut missing = self.secret_env.clone();
        for (name, value) in environment {
            let Some(name) = name.to_str() else { continue };
            let is_named = self.secret_env.iter().any(|wanted| wanted == name);
            missing.retain(|wanted| wanted != name);
            let sounds = self.environment && sounds_secret(name);
            if !is_named && !sounds {
                continue;
            }
            let Some(value) = value.to_str() else {
                if is_named {
                    return Err(unusable("secret_env", &name, "is not UTF-8 text"));
                }
                continue;
            };
            match Secret::new(value) {
                Ok(secret) => {
                    if is_named || !is_ordinary(value) {
                        known.push(secret);
                    }
                }
                Err(why) if is_named => return Err(unusable("secret_env", &name, &why)),
                Err(why @ Refused::TooLong { .. }) => {
                    notes.push(format!("the value of {name} is not masked, because it {why}"));
                }
                Err(_) => {}
            }
        }
        if let Some(name) = missing.first() {
            return Err(unusable("secret_env", name, "is not set; set it or remove it from the list"));
        }
        for path in &self.secret_files {
            let name = path.display();
            let text = read(path).map_err(|why| unusable("secret_files", &name, &why))?;
            known.push(Secret::new(&text).map_err(|why| unusable("secret_files", &name, &why))?);
        }
        for key in keys {
            match Secret::new(key.reveal()) {
                Ok(secret) => known.push(secret),
                Err(why) => notes.push(format!(
                    "a key of a model provider, the default of a secret option or the password of the database is \
                     not masked, because it {why}"
                )),
            }
        }
        let max = recount_redact::limits::KNOWN_MAX;
        if known.len() > max {
            let many = format!(
                "{} secrets are configured; the limit is {max}; disable redaction.environment and list the \
                 secrets to mask",
                known.len()
            );
            return Err(StartError::usage(many));
        }
        Ok((Arc::new(Redactor::new(known, self.detectors)), notes))
    }
}

fn unusable(key: &str, name: &dyn std::fmt::Display, why: &(impl std::fmt::Display + ?Sized)) -> StartError {
    StartError::usage(format!("redaction.{key}: {name} {why}"))
}

fn read(path: &Path) -> Result<String, String> {
    let size = std::fs::metadata(path).map_err(|why| format!("cannot be read: {why}"))?.len();
    if size > SECRET_FILE_BYTES_MAX {
        return Err(format!("has {size} bytes; name a file that contains only one secret"));
    }
    let bytes = std::fs::read(path).map_err(|why| format!("cannot be read: {why}"))?;
    String::from_utf8(bytes).map_err(|_| "is not UTF-8 text".to_owned())
}

/// Whether a variable of this name usually holds a secret, and not only its path or its owner.
fn sounds_secret(name: &str) -> bool {
    const SECRET: [&str; 12] = [
        "KEY",
        "APIKEY",
        "TOKEN",
        "SECRET",
        "SECRETS",
        "PASSWORD",
        "PASSWD",
        "PASSPHRASE",
        "PASS",
        "PWD",
        "CREDENTIAL",
        "CREDENTIALS",
    ];
    const ABOUT: [&str; 17] = [
        "ID", "NAME", "USER", "FILE", "PATH", "DIR", "FOLDER", "URL", "URI", "HOST", "PORT", "SOCK", "TYPE",
        "COMMAND", "CMD", "ENABLED", "COUNT",
    ];
    let name = name.to_ascii_uppercase();
    let words: Vec<&str> = name.split(['_', '-', '.']).filter(|word| !word.is_empty()).collect();
    let Some(last) = words.last() else { return false };
    let has = |list: &[&str]| words.iter().any(|word| list.contains(word));
    !matches!(name.as_str(), "PWD" | "OLDPWD")
        && has(&SECRET)
        && !ABOUT.contains(last)
        && !words.contains(&"PUBLIC")
}

/// Whether a value also occurs in ordinary text: a word, a number, the path of an existing file. Such a value is masked
/// only if the configuration names its variable.
fn is_ordinary(value: &str) -> bool {
    let value = value.trim();
    let short = value.len() < PLAIN_WORD_BYTES_MAX;
    let word = value.bytes().all(|byte| byte.is_ascii_alphabetic());
    let number = value.bytes().all(|byte| byte.is_ascii_digit());
    (short && (word || number)) || (value.starts_with('/') && Path::new(value).exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built(
        redaction: &Redaction,
        environment: &[(&str, &str)],
    ) -> Result<(Arc<Redactor>, UnmaskedNotes), String> {
        let environment =
            environment.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
        redaction.redactor(environment, &[]).map_err(|why| why.to_string())
    }

    #[test]
    fn which_names_sound_secret() {
        for name in [
            "RECOUNT_TOKEN",
            "OPENAI_API_KEY",
            "AWS_SECRET_ACCESS_KEY",
            "PGPASSWORD_X_PASSWORD",
            "MYSQL_PWD",
            "SECRET_KEY_BASE",
            "db_password",
            "APIKEY",
            "GIT_CREDENTIALS",
        ] {
            assert!(sounds_secret(name), "{name}");
        }
        for name in [
            "PATH",
            "PWD",
            "OLDPWD",
            "HOME",
            "SSH_AUTH_SOCK",
            "AWS_ACCESS_KEY_ID",
            "SSL_KEY_FILE",
            "KEYBOARD",
            "TOKENIZERS_PARALLELISM",
            "SIGNING_PUBLIC_KEY",
            "SECRET_PATH",
            "MAX_TOKENS",
            "",
        ] {
            assert!(!sounds_secret(name), "{name}");
        }
    }

    #[test]
    fn secrets_in_the_environment_are_masked_and_ordinary_values_are_not() {
        let environment = [
            ("APP_TOKEN", "a-very-secret-value-42"),
            ("OTHER_KEY", "disabled"),
            ("BUILD_KEY", "12345678"),
            ("LAST_KEY", "short"),
            ("KEY_DIR_KEY", "/proc"),
            ("PLAIN", "nothing-secret-here"),
        ];
        let (redactor, notes) = built(&Redaction::default(), &environment).unwrap();
        assert!(notes.is_empty());
        let text = "a-very-secret-value-42 disabled 12345678 short /proc nothing-secret-here";
        assert_eq!(
            redactor.text(text),
            "********************** disabled 12345678 short /proc nothing-secret-here"
        );
        let off = Redaction { environment: false, ..Redaction::default() };
        assert_eq!(built(&off, &environment).unwrap().0.text(text), text);
        let named = Redaction { secret_env: vec!["OTHER_KEY".into(), "PLAIN".into()], ..off };
        let (redactor, _) = built(&named, &environment).unwrap();
        assert_eq!(
            redactor.text(text),
            "a-very-secret-value-42 ******** 12345678 short /proc *******************"
        );
        let long = "x1".repeat(3000);
        let (_, notes) = built(&Redaction::default(), &[("LONG_SECRET", &long)]).unwrap();
        assert!(notes[0].contains("LONG_SECRET") && notes[0].contains("6000") && !notes[0].contains("x1"));
    }

    #[test]
    fn keys_of_providers_are_masked() {
        let keys = ["sk-of-a-provider", "short"].map(recount_agent::model::Secret::new);
        let off = Redaction { detectors: false, environment: false, ..Redaction::default() };
        let (redactor, notes) = off.redactor(std::iter::empty(), &keys).unwrap();
        assert_eq!(redactor.text("key sk-of-a-provider"), "key ****************");
        assert!(notes.len() == 1 && !notes[0].contains("short"), "{notes:?}");
    }

    #[test]
    fn files_hold_one_secret_each() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        std::fs::write(&path, "  kept in a file\n").unwrap();
        let redaction = Redaction { secret_files: vec![path], ..Redaction::default() };
        let (redactor, _) = built(&redaction, &[]).unwrap();
        assert_eq!(redactor.text("it was kept in a file, yes"), "it was **************, yes");
        let neither = Redaction { detectors: false, environment: false, ..Redaction::default() };
        assert!(built(&neither, &[("A_KEY", "a-very-secret-value")]).unwrap().0.is_off());
    }

    #[test]
    fn unusable_secrets_are_named_but_not_shown() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("short");
        std::fs::write(&path, "s3cr3t\n").unwrap();
        let absent = folder.path().join("absent");
        let env = |name: &str| Redaction { secret_env: vec![name.into()], ..Redaction::default() };
        let file = |path: &Path| Redaction { secret_files: vec![path.into()], ..Redaction::default() };
        let environment = [("SHORT", "s3cr3t"), ("SAME", "zzzzzzzzzz")];
        for (redaction, words) in [
            (env("SHORT"), ["secret_env: SHORT", "6 bytes"]),
            (env("SAME"), ["secret_env: SAME", "one repeated character"]),
            (env("ABSENT"), ["secret_env: ABSENT", "is not set"]),
            (file(&path), ["secret_files: ", "6 bytes"]),
            (file(&absent), ["secret_files: ", "cannot be read"]),
        ] {
            let why = built(&redaction, &environment).unwrap_err();
            assert!(words.iter().all(|word| why.contains(word)), "{why}");
            assert!(!why.contains("s3cr3t") && !why.contains("zzz"), "{why}");
        }
    }
}
