//! Files in binary forms.

/// A variable's file: attributes, then UTF-16.
pub fn efi_bytes(text: &str) -> Vec<u8> {
    let mut bytes = vec![7, 0, 0, 0];
    bytes.extend(text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes));
    bytes
}

/// GRUB's environment block with these variables.
pub fn env_block(pairs: &[(&str, &str)]) -> Vec<u8> {
    let mut block = b"# GRUB Environment Block\n".to_vec();
    for (key, value) in pairs {
        block.extend_from_slice(format!("{key}={value}\n").as_bytes());
    }
    block.resize(1024, b'#');
    block
}

/// A PE file of nothing but sections.
pub fn pe(sections: &[(&str, &[u8])]) -> Vec<u8> {
    let count = u16::try_from(sections.len()).expect("few");
    let mut head = vec![0; 64];
    head[..2].copy_from_slice(b"MZ");
    head[60] = 64;
    head.extend_from_slice(b"PE\0\0");
    head.extend_from_slice(&0x8664_u16.to_le_bytes());
    head.extend_from_slice(&count.to_le_bytes());
    head.extend_from_slice(&[0; 12]);
    head.extend_from_slice(&240_u16.to_le_bytes());
    head.extend_from_slice(&0x22_u16.to_le_bytes());
    let optional = head.len();
    head.resize(optional + 240, 0);
    head[optional..optional + 2].copy_from_slice(&0x20b_u16.to_le_bytes());
    head[optional + 108..optional + 112].copy_from_slice(&16_u32.to_le_bytes());
    let mut data = vec![0; (head.len() + sections.len() * 40).next_multiple_of(512)];
    let start = data.len();
    for (name, bytes) in sections {
        let size = u32::try_from(bytes.len()).expect("small");
        let at = u32::try_from(data.len()).expect("small");
        let mut header = [0; 40];
        header[..name.len()].copy_from_slice(name.as_bytes());
        header[8..12].copy_from_slice(&size.to_le_bytes());
        header[12..16].copy_from_slice(&at.to_le_bytes());
        header[16..20].copy_from_slice(&size.next_multiple_of(512).to_le_bytes());
        header[20..24].copy_from_slice(&at.to_le_bytes());
        head.extend_from_slice(&header);
        data.extend_from_slice(bytes);
        data.resize(data.len().next_multiple_of(512), 0);
    }
    assert!(head.len() <= start);
    data[..head.len()].copy_from_slice(&head);
    data
}
