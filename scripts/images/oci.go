package images

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// nonRoot is the user of the programs: a number, so that Kubernetes can verify that it is not root.
const nonRoot = "65532:65532"

// Media types of the OCI image format (github.com/opencontainers/image-spec).
const (
	typeIndex    = "application/vnd.oci.image.index.v1+json"
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    map[string]string `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// file of an image or an archive. A name that ends with a slash is a folder's.
type file struct {
	data []byte
	mode int64 // 0: 0644
}

// WriteProgram writes an image that consists of a static program, which is its entry point, as an
// archive that containerd and Docker can load.
func WriteProgram(archive, name, program string) error {
	data, err := os.ReadFile(program)
	if err != nil {
		return fmt.Errorf("read the program: %w", err)
	}
	entry := "/" + filepath.Base(program)
	files, _, err := layoutOf(name, map[string]file{"tmp/": {mode: 0o1777}, entry[1:]: {data, 0o755}}, map[string]any{
		"User": nonRoot, "WorkingDir": "/", "Env": []string{"PATH=/usr/local/bin:/usr/bin:/bin"}, "Entrypoint": []string{entry},
	})
	if err != nil {
		return err
	}
	packed, err := pack(files)
	if err == nil {
		err = os.WriteFile(archive, packed, 0o644)
	}
	if err != nil {
		return fmt.Errorf("write the image %s: %w", name, err)
	}
	return nil
}

// layoutOf returns the files of an OCI image layout, and the digest of its one image, which has one
// layer. Equal content has an equal digest. A name, with its tag, is what the image is loaded as.
func layoutOf(name string, content map[string]file, config map[string]any) (files map[string]file, digest string, err error) {
	layer, err := pack(content)
	if err != nil {
		return nil, "", err
	}
	var zipped bytes.Buffer
	zw := gzip.NewWriter(&zipped)
	_, err = zw.Write(layer)
	if err = errors.Join(err, zw.Close()); err != nil {
		return nil, "", fmt.Errorf("compress the layer: %w", err)
	}
	files = map[string]file{"oci-layout": {data: []byte(`{"imageLayoutVersion":"1.0.0"}`)}}
	encode := func(v any) []byte {
		raw, failed := json.Marshal(v)
		err = errors.Join(err, failed)
		return raw
	}
	blob := func(mediaType string, data []byte) descriptor {
		digest := digestOf(data)
		files[blobPath(digest)] = file{data: data}
		return descriptor{MediaType: mediaType, Digest: digest, Size: len(data)}
	}
	system := map[string]string{"architecture": runtime.GOARCH, "os": "linux"}
	blobs := blob(typeLayer, zipped.Bytes())
	described := blob(typeConfig, encode(map[string]any{
		"created": time.Unix(0, 0).UTC(), "architecture": system["architecture"], "os": system["os"], "config": config,
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{digestOf(layer)}},
	}))
	manifest := blob(typeManifest, encode(map[string]any{
		"schemaVersion": 2, "mediaType": typeManifest, "config": described, "layers": []descriptor{blobs},
	}))
	manifest.Platform = system
	if name != "" {
		manifest.Annotations = map[string]string{
			"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name[strings.LastIndexByte(name, ':')+1:],
		}
		// What `docker load` of an older Docker reads.
		files["manifest.json"] = file{data: encode([]map[string]any{{
			"Config": blobPath(described.Digest), "RepoTags": []string{name}, "Layers": []string{blobPath(blobs.Digest)},
		}})}
	}
	files["index.json"] = file{data: encode(map[string]any{"schemaVersion": 2, "mediaType": typeIndex, "manifests": []descriptor{manifest}})}
	return files, manifest.Digest, err
}

func digestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func blobPath(digest string) string { return "blobs/sha256/" + strings.TrimPrefix(digest, "sha256:") }

// pack creates an archive of files and their parent folders. Timestamps are fixed, so that equal
// files give equal archives.
func pack(files map[string]file) ([]byte, error) {
	all := maps.Clone(files)
	for name := range files {
		for dir := path.Dir(strings.TrimSuffix(name, "/")); dir != "."; dir = path.Dir(dir) {
			all[dir+"/"] = file{mode: 0o755}
		}
	}
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, name := range slices.Sorted(maps.Keys(all)) { // a folder sorts before its files
		f := all[name]
		h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: f.mode, Size: int64(len(f.data)), ModTime: time.Unix(0, 0)}
		if strings.HasSuffix(name, "/") {
			h.Typeflag = tar.TypeDir
		} else if f.mode == 0 {
			h.Mode = 0o644
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, fmt.Errorf("pack %s: %w", name, err)
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, fmt.Errorf("pack %s: %w", name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("pack: %w", err)
	}
	return out.Bytes(), nil
}

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
