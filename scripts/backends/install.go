package backends

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"urr.guru/pkg/filelock"
	"urr.guru/pkg/loop"
	"urr.guru/scripts/internal/apt"
)

// jars returns the folder with the jars of scripts/backends/<name>.pom.xml. Maven downloads them
// when the pom changes.
func (s *Set) jars(ctx context.Context, name string) (string, error) {
	if _, err := s.apt.Ensure(ctx, "java", "default-jre-headless"); err != nil {
		return "", err
	}
	dir, err := s.jarFolder(name)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	// Serialized, since all runs of the checkout share the jars and all Maven processes of the user
	// share their repository.
	unlock, err := filelock.Lock(ctx, s.layout.Shared("jars", "lock"), func() { s.say("the jars of %s wait for others to be fetched", name) })
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	mvn, err := s.apt.Ensure(ctx, "mvn", "maven")
	if err != nil {
		return "", err
	}
	s.say("fetching the jars of %s by Maven", name)
	partial := dir + ".part"
	if err := os.RemoveAll(partial); err != nil {
		return "", fmt.Errorf("clear %s: %w", partial, err)
	}
	if err := s.maven(ctx, mvn, "-f", s.pom(name), "dependency:copy-dependencies", "-DoutputDirectory="+partial); err != nil {
		return "", err
	}
	if err := os.Rename(partial, dir); err != nil {
		return "", fmt.Errorf("keep jars: %w", err)
	}
	return dir, nil
}

// maven runs Maven, and retries once: Maven fails at the first error of an overloaded repository
// and keeps what it has downloaded.
func (s *Set) maven(ctx context.Context, mvn string, args ...string) error {
	const pause = 5 * time.Second
	run := func() error {
		return apt.RunLogged(exec.CommandContext(ctx, mvn, append([]string{"-q", "-B", "-U"}, args...)...), s.layout.Log("maven"))
	}
	err := run()
	if err != nil && loop.Sleep(ctx, pause) {
		err = run()
	}
	if err != nil {
		return fmt.Errorf("fetching the jars failed: %w", err)
	}
	return nil
}

// jarFolder is named after the pom's content, so that a changed pom is downloaded again.
func (s *Set) jarFolder(name string) (string, error) {
	pom, err := os.ReadFile(s.pom(name))
	if err != nil {
		return "", fmt.Errorf("read pom: %w", err)
	}
	sum := sha256.Sum256(pom)
	return s.layout.Shared("jars", name+"-"+hex.EncodeToString(sum[:4])), nil
}

func (s *Set) pom(name string) string {
	return filepath.Join(s.layout.Root, "scripts", "backends", name+".pom.xml")
}
