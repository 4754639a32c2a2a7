package images

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"
)

// nonRoot is the user of the programs: a number, so that Kubernetes can verify that it is not root.
const nonRoot = "65532:65532"

// certificates is the path of the bundle of Debian's package ca-certificates, and where Go looks
// for it in the image.
const certificates = "/etc/ssl/certs/ca-certificates.crt"

// Media types of the OCI image format (github.com/opencontainers/image-spec).
const (
	typeIndex    = "application/vnd.oci.image.index.v1+json"
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

type descriptor struct {
	MediaType string            `json:"mediaType"`
	Digest    string            `json:"digest"`
	Size      int               `json:"size"`
	Platform  map[string]string `json:"platform,omitempty"`
}

// writeBase writes the base image to dir (an OCI image layout) and returns its digest. It contains
// what a static program needs of a system: CA certificates and a user entry. Equal content has an
// equal digest.
func writeBase(dir string) (digest string, err error) {
	bundle, err := os.ReadFile(certificates)
	if err != nil {
		return "", fmt.Errorf("read the certificates: %w", err)
	}
	layer, err := pack(map[string][]byte{
		"etc/passwd":        []byte("root:x:0:0::/:/sbin/nologin\nnonroot:x:65532:65532::/:/sbin/nologin\n"),
		"etc/group":         []byte("root:x:0:\nnonroot:x:65532:\n"),
		certificates[1:]:    bundle,
		"etc/nsswitch.conf": []byte("hosts: files dns\n"),
	})
	if err != nil {
		return "", err
	}
	if err := os.RemoveAll(dir); err != nil {
		return "", fmt.Errorf("clear %s: %w", dir, err)
	}
	l := layout{dir: dir}
	var zipped bytes.Buffer
	zw := gzip.NewWriter(&zipped)
	if _, err := zw.Write(layer); err != nil {
		return "", fmt.Errorf("compress the base: %w", err)
	}
	if err := zw.Close(); err != nil {
		return "", fmt.Errorf("compress the base: %w", err)
	}
	blob := l.blob(typeLayer, zipped.Bytes())
	config := l.document(typeConfig, map[string]any{
		"created": time.Unix(0, 0).UTC(), "architecture": runtime.GOARCH, "os": "linux",
		"config": map[string]any{"User": nonRoot, "WorkingDir": "/", "Env": []string{"SSL_CERT_FILE=" + certificates}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{digestOf(layer)}},
	})
	manifest := l.document(typeManifest, map[string]any{
		"schemaVersion": 2, "mediaType": typeManifest, "config": config, "layers": []descriptor{blob},
	})
	manifest.Platform = map[string]string{"architecture": runtime.GOARCH, "os": "linux"}
	l.file("index.json", l.encode(map[string]any{"schemaVersion": 2, "mediaType": typeIndex, "manifests": []descriptor{manifest}}))
	l.file("oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`))
	return manifest.Digest, l.err
}

// layout writes the files of an OCI image layout and keeps the first error.
type layout struct {
	dir string
	err error
}

func (l *layout) blob(mediaType string, data []byte) descriptor {
	digest := digestOf(data)
	l.file(filepath.Join("blobs", "sha256", digest[len("sha256:"):]), data)
	return descriptor{MediaType: mediaType, Digest: digest, Size: len(data)}
}

func (l *layout) document(mediaType string, v any) descriptor { return l.blob(mediaType, l.encode(v)) }

func (l *layout) encode(v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil && l.err == nil {
		l.err = fmt.Errorf("encode the base: %w", err)
	}
	return raw
}

func (l *layout) file(name string, data []byte) {
	if l.err != nil {
		return
	}
	path := filepath.Join(l.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		l.err = fmt.Errorf("write the base: %w", err)
		return
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		l.err = fmt.Errorf("write the base: %w", err)
	}
}

func digestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}
