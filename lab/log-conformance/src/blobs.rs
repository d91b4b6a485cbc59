//! Cases: blobs, which are stored under their hash.

use super::*;
use recount_log::limits::BLOB_BYTES_MAX;

pub fn bytes_are_stored_under_their_hash(make: Make<'_>) {
    let subject = make();
    let store = &*subject.store;
    for bytes in [&b""[..], b"one", &[0xff; 70_000]] {
        let bytes = Bytes::copy_from_slice(bytes);
        let hash = block_on(store.put_blob(bytes.clone())).unwrap();
        assert_eq!(hash, blake3::hash(&bytes).to_hex().as_str());
        assert_eq!(block_on(store.put_blob(bytes.clone())), Ok(hash.clone()), "the same bytes again");
        assert_eq!(block_on(store.blob(&hash)), Ok(Some(bytes)));
    }
    let too_large = Bytes::from(vec![0; BLOB_BYTES_MAX + 1]);
    assert_eq!(kind(block_on(store.put_blob(too_large))), FaultKind::TooLarge);
}

pub fn an_unknown_blob_is_none(make: Make<'_>) {
    let subject = make();
    let stored = block_on(subject.store.put_blob(Bytes::from_static(b"one"))).unwrap();
    let unknown = blake3::hash(b"two").to_hex();
    let upper = stored.to_uppercase();
    for name in [unknown.as_str(), &upper, &stored[..63], "", "..", "../recount.db", "\0", "\u{e9}\u{e9}"] {
        assert_eq!(block_on(subject.store.blob(name)), Ok(None), "{name:?}");
    }
}

pub fn a_damaged_blob_is_a_fault(make: Make<'_>) {
    let subject = make();
    let hash = block_on(subject.store.put_blob(Bytes::from_static(b"whole"))).unwrap();
    let Some(damage) = &subject.damage_blob else { return };
    damage(&hash);
    let fault = block_on(subject.store.blob(&hash)).unwrap_err();
    assert_eq!(fault.kind, FaultKind::Corrupt);
    assert!(fault.message.contains(&hash), "{fault}");
    let found = block_on(subject.store.integrity()).unwrap();
    assert!(found.problems.iter().any(|problem| problem.contains(&hash)), "{found:?}");
}

pub fn a_damaged_blob_is_healed_by_storing_it_again(make: Make<'_>) {
    let subject = make();
    let bytes = Bytes::from_static(b"whole");
    let hash = block_on(subject.store.put_blob(bytes.clone())).unwrap();
    let Some(damage) = &subject.damage_blob else { return };
    damage(&hash);
    assert_eq!(block_on(subject.store.put_blob(bytes.clone())), Ok(hash.clone()));
    assert_eq!(block_on(subject.store.blob(&hash)), Ok(Some(bytes)));
}

pub fn blobs_are_listed_and_deleted(make: Make<'_>) {
    let subject = make();
    let store = &*subject.store;
    let mut hashes: Vec<String> =
        (0..20_u8).map(|n| block_on(store.put_blob(Bytes::copy_from_slice(&[n]))).unwrap()).collect();
    hashes.sort_unstable();
    for limit in [1, 3, 20, 50] {
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let page = block_on(store.blobs(after.take(), limit)).unwrap();
            assert!(page.len() <= limit);
            let Some(last) = page.last() else { break };
            after = Some(last.clone());
            found.extend(page);
        }
        assert_eq!(found, hashes, "{limit} at a time");
    }
    let deleted = hashes.remove(7);
    for name in [deleted.as_str(), &deleted, "", "..", "../recount.db", &deleted[..63]] {
        assert_eq!(block_on(store.remove_blob(name)), Ok(()), "{name:?}");
    }
    assert_eq!(block_on(store.blob(&deleted)), Ok(None));
    assert_eq!(block_on(store.blobs(None, 50)), Ok(hashes));
    assert_eq!(block_on(store.integrity()).unwrap().problems, [""; 0]);
}
