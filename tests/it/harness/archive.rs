//! Archives for package managers.

/// Packs files into a gzipped tar archive.
pub fn tar_gz(files: &[(&str, &str)]) -> Vec<u8> {
    let packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let mut archive = tar::Builder::new(packer);
    for (path, text) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        header.set_cksum();
        archive
            .append_data(&mut header, path, text.as_bytes())
            .expect("packed");
    }
    let packer = archive.into_inner().expect("packed");
    packer.finish().expect("packed")
}
