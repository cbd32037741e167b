//! `quorate secret`: makes a new secret. The servers of an ensemble authenticate each other with
//! it.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use storage::disk::FILE_MODE;

use crate::cli::SecretArgs;
use crate::random::random_bytes;

/// Writes a secret to a new file, or prints it if no file is given.
pub fn run(args: &SecretArgs) -> anyhow::Result<ExitCode> {
    match &args.file {
        Some(file) => write_secret(file).with_context(|| format!("{}", file.display()))?,
        None => println!("{}", new_secret()?),
    }
    Ok(ExitCode::SUCCESS)
}

/// 32 random bytes in hexadecimal.
fn new_secret() -> anyhow::Result<String> {
    Ok(random_bytes()?.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Writes a secret to a new file that only its owner can read.
///
/// # Errors
/// The file already exists, or it cannot be written.
pub fn write_secret(file: &Path) -> anyhow::Result<()> {
    let text = new_secret()?;
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(FILE_MODE).open(file)?;
    writeln!(file, "{text}")?;
    file.sync_all()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_secret_is_written_to_a_new_file_for_its_owner() {
        let folder = std::env::temp_dir().join(format!("quorate-secret-{}", std::process::id()));
        std::fs::create_dir(&folder).expect("a directory");
        let file = folder.join("secret");
        write_secret(&file).expect("is written");
        let written = std::fs::read_to_string(&file).expect("is there");
        assert_eq!(written.trim_end().len(), 64);
        let mode = std::fs::metadata(&file).expect("is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(write_secret(&file).is_err(), "the secret of an ensemble is never replaced");
        assert_eq!(std::fs::read_to_string(&file).expect("is there"), written);
        assert_ne!(new_secret().expect("random bytes"), written.trim_end());
        std::fs::remove_dir_all(&folder).expect("is removed");
    }
}
