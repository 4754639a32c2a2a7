package images

import (
	"fmt"
	"os"
	"path/filepath"
)

// certificates is the path of the bundle of Debian's package ca-certificates, and where Go looks
// for it in the image.
const certificates = "/etc/ssl/certs/ca-certificates.crt"

// writeBase writes the base image to dir (an OCI image layout) and returns its digest. It contains
// what a static program needs of a system: CA certificates and a user entry.
func writeBase(dir string) (digest string, err error) {
	bundle, err := os.ReadFile(certificates)
	if err != nil {
		return "", fmt.Errorf("read the certificates: %w", err)
	}
	files, digest, err := layoutOf("", map[string]file{
		"etc/passwd":        {data: []byte("root:x:0:0::/:/sbin/nologin\nnonroot:x:65532:65532::/:/sbin/nologin\n")},
		"etc/group":         {data: []byte("root:x:0:\nnonroot:x:65532:\n")},
		certificates[1:]:    {data: bundle},
		"etc/nsswitch.conf": {data: []byte("hosts: files dns\n")},
	}, map[string]any{"User": nonRoot, "WorkingDir": "/", "Env": []string{"SSL_CERT_FILE=" + certificates}})
	if err != nil {
		return "", err
	}
	if err := os.RemoveAll(dir); err != nil {
		return "", fmt.Errorf("clear %s: %w", dir, err)
	}
	for name, f := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return "", fmt.Errorf("write the base: %w", err)
		}
		if err := os.WriteFile(path, f.data, 0o644); err != nil {
			return "", fmt.Errorf("write the base: %w", err)
		}
	}
	return digest, nil
}
