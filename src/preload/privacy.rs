//! What of the command line and the environment goes into a trace, and what of that is masked: traces are mailed around.

use std::collections::BTreeMap;

/// Variables that are recorded, by beginning.
const PREFIXES: [&str; 13] = [
    "CUDA_",
    "NVIDIA_",
    "PYTORCH_",
    "XLA_",
    "TF_GPU_",
    "TF_FORCE_",
    "CUPY_",
    "RMM_",
    "NCCL_",
    "GGML_CUDA_",
    "SLURM_",
    "OMPI_COMM_WORLD_",
    "OOMHOOK",
];

/// Variables that are recorded, by name.
const NAMES: [&str; 6] = [
    "RANK",
    "LOCAL_RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "PMI_RANK",
    "JOB_ID",
];

/// Stands for what is not shown.
pub const MASK: &str = "***";

/// Words in a name that say that its value is secret.
const SECRETS: [&str; 11] = [
    "token",
    "secret",
    "pass",
    "pwd",
    "bearer",
    "apikey",
    "api_key",
    "api-key",
    "credential",
    "private",
    "auth",
];

fn names_a_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRETS.iter().any(|word| name.contains(word))
        || name.ends_with("_key")
        || name.ends_with("-key")
}

/// Values that are secrets by their own look.
pub fn looks_secret(value: &str) -> bool {
    [
        "hf_",
        "sk-",
        "ghp_",
        "gho_",
        "github_pat_",
        "glpat-",
        "AKIA",
        "xoxb-",
        "eyJ",
    ]
    .iter()
    .any(|start| value.len() > start.len() + 12 && value.starts_with(start))
}

/// `scheme://user:password@host` without the password.
pub fn without_password(value: &str) -> String {
    let Some((scheme, rest)) = value.split_once("://") else {
        return value.into();
    };
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    match authority
        .rsplit_once('@')
        .and_then(|(user, host)| Some((user.split_once(':')?.0, host)))
    {
        Some((user, host)) => format!("{scheme}://{user}:{MASK}@{host}{path}"),
        None => value.into(),
    }
}

/// What stands behind `Authorization:`, `"password":` and their like goes, to the end: where such a value ends is a matter of
/// the format.
fn without_named_secret(value: &str) -> String {
    let lower = value.to_ascii_lowercase();
    let colon = value
        .char_indices()
        .filter(|(_, letter)| *letter == ':')
        .map(|(at, _)| at);
    let named = |at: &usize| {
        let key = lower[..*at]
            .rsplit(['{', ',', '&', ';', ' '])
            .next()
            .unwrap_or_default();
        names_a_secret(key.trim_matches(['"', '\'']))
    };
    match colon
        .filter(|at| !value[*at..].starts_with("://"))
        .find(named)
    {
        Some(at) => format!("{}: {MASK}", &value[..at]),
        None => without_password(value),
    }
}

fn masked(name: &str, value: &str) -> String {
    if (names_a_secret(name) && !value.is_empty()) || looks_secret(value) {
        MASK.into()
    } else {
        without_named_secret(value)
    }
}

/// The command line as it may be shown.
pub fn command_line(arguments: &[String]) -> Vec<String> {
    let mut secret_follows = false;
    let mut shown = Vec::with_capacity(arguments.len());
    for argument in arguments {
        let option = argument.starts_with('-');
        if secret_follows && !option {
            shown.push(MASK.into());
            secret_follows = false;
            continue;
        }
        secret_follows = false;
        match argument.split_once('=') {
            Some((name, value)) => shown.push(format!("{name}={}", masked(name, value))),
            None => {
                secret_follows = option && names_a_secret(argument);
                shown.push(masked("", argument));
            }
        }
    }
    shown
}

/// The listed variables of an environment.
pub fn environment(variables: impl Iterator<Item = (String, String)>) -> BTreeMap<String, String> {
    variables
        .filter(|(name, _)| {
            NAMES.contains(&name.as_str()) || PREFIXES.iter().any(|start| name.starts_with(start))
        })
        .map(|(name, value)| {
            let value = masked(&name, &value);
            (name, value)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(arguments: &[&str]) -> Vec<String> {
        command_line(
            &arguments
                .iter()
                .map(|argument| (*argument).into())
                .collect::<Vec<_>>(),
        )
    }

    #[test]
    fn secrets_on_the_command_line_are_masked() {
        assert_eq!(
            shown(&[
                "train.py",
                "--api-key",
                "abc",
                "--hf_token=xyz",
                "--lr=0.1",
                "--auth-token",
                "--x"
            ]),
            [
                "train.py",
                "--api-key",
                "***",
                "--hf_token=***",
                "--lr=0.1",
                "--auth-token",
                "--x"
            ]
        );
        assert_eq!(
            shown(&[
                "curl",
                "https://me:pw@host/a?b",
                "https://host/a:b@c",
                "hf_abcdefghijklmnopqrstuv"
            ]),
            [
                "curl",
                "https://me:***@host/a?b",
                "https://host/a:b@c",
                "***"
            ]
        );
    }

    #[test]
    fn secrets_inside_a_value_are_masked() {
        assert_eq!(
            shown(&[
                "-H",
                "Authorization: Bearer abc",
                "--data={\"user\":\"me\",\"password\":\"x\"}",
                "--pass",
                "y",
                "a:b",
                "http://host:80/",
            ]),
            [
                "-H",
                "Authorization: ***",
                "--data={\"user\":\"me\",\"password\": ***",
                "--pass",
                "***",
                "a:b",
                "http://host:80/",
            ]
        );
    }

    #[test]
    fn only_listed_variables_are_kept() {
        let variables = [
            ("CUDA_VISIBLE_DEVICES", "0"),
            ("AWS_SECRET_ACCESS_KEY", "x"),
            ("HOME", "/root"),
            ("SLURM_JOB_ID", "7"),
            ("SLURM_TOKEN", "t"),
        ];
        let kept = environment(
            variables
                .iter()
                .map(|(name, value)| ((*name).into(), (*value).into())),
        );
        let kept: Vec<_> = kept
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        assert_eq!(
            kept,
            [
                "CUDA_VISIBLE_DEVICES=0",
                "SLURM_JOB_ID=7",
                "SLURM_TOKEN=***"
            ]
        );
    }
}
