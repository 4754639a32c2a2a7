package backends

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"urr.guru/pkg/filelock"
	"urr.guru/pkg/loop"
	"urr.guru/scripts/internal/apt"
	"urr.guru/scripts/internal/files"
	"urr.guru/scripts/platform"
	"urr.guru/scripts/process"
)

// kafkaClusterID is the cluster id that Kafka's KRaft mode requires: 16 bytes in base64url. Any
// value will do for a cluster of one node.
const kafkaClusterID = "dXJyLWRldmVsb3BtZW50cw"

// kafkaUsers has the settings of a broker that knows its users: who did not sign in, as on loopback
// listeners, administers it.
const kafkaUsers = `sasl.enabled.mechanisms=SCRAM-SHA-512
listener.name.outside.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
ssl.keystore.type=PEM
ssl.keystore.location=%s
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
`

func (s *Set) kafka() backend {
	port, controller := s.layout.Port(platform.KafkaPort), s.layout.Port(platform.KafkaControllerPort)
	return backend{
		name: "kafka", ports: []int{port, controller}, stop: syscall.SIGTERM, settle: doNothing,
		prepare: s.prepareKafka,
		spec: func() (process.Spec, error) {
			return s.java("kafka", []string{"-Xms128m", "-Xmx384m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"},
				"kafka.Kafka", s.kafkaConfig())
		},
		ready: func(ctx context.Context) error {
			client, err := kgo.NewClient(kgo.SeedBrokers(s.layout.KafkaBroker()), kgo.RetryTimeout(0))
			if err != nil {
				return err
			}
			defer client.Close()
			return client.Ping(ctx)
		},
	}
}

func (s *Set) kafkaConfig() string { return s.layout.State("data", "kafka", "server.properties") }

func (s *Set) prepareKafka(ctx context.Context) error {
	if _, err := s.jars(ctx, "kafka"); err != nil {
		return err
	}
	dir, err := s.makeDataFolder("kafka")
	if err != nil {
		return err
	}
	var outside, advertised, users string
	if s.kafkaOutside.Addr != "" {
		outside = fmt.Sprintf(",OUTSIDE://127.0.0.1:%d", s.layout.Port(platform.KafkaOutsidePort))
		advertised = ",OUTSIDE://" + s.kafkaOutside.Addr
		users = fmt.Sprintf(kafkaUsers, s.kafkaOutside.Certificate)
	}
	// The default buffer of Kafka's log cleaner has 128 MB, which is a third of this heap.
	config := fmt.Sprintf(`process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:%[2]d
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:%[1]d,CONTROLLER://127.0.0.1:%[2]d%[4]s
advertised.listeners=PLAINTEXT://127.0.0.1:%[1]d%[5]s
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,OUTSIDE:SASL_SSL
log.dirs=%[3]s
auto.create.topics.enable=false
num.partitions=3
offsets.topic.replication.factor=1
offsets.topic.num.partitions=8
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
log.cleaner.dedupe.buffer.size=16777216
%[6]s`, s.layout.Port(platform.KafkaPort), s.layout.Port(platform.KafkaControllerPort), filepath.Join(dir, "log"), outside, advertised, users)
	if err := files.Put(s.kafkaConfig(), []byte(config)); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(dir, "log", "meta.properties")); err == nil {
		return nil
	}
	format := []string{"format", "--cluster-id", kafkaClusterID, "--config", s.kafkaConfig()}
	for name, password := range s.kafkaOutside.Users {
		format = append(format, "--add-scram", fmt.Sprintf("SCRAM-SHA-512=[name=%s,password=%s]", name, password))
	}
	spec, err := s.java("kafka", nil, "kafka.tools.StorageTool", format...)
	if err != nil {
		return err
	}
	if err := apt.RunLogged(exec.CommandContext(ctx, spec.Path, spec.Args...), s.layout.LogFile("kafka-format")); err != nil {
		return fmt.Errorf("formatting the log folder failed: %w", err)
	}
	return nil
}

// noFsync is the name of the program eatmydata and of its package. It makes fsync do nothing in
// another program. SQLite's many fsync calls limit DynamoDB Local to about 50 writes/s on a slow
// disk. Without fsync only a power failure loses data, as with PostgreSQL's fsync=off.
const noFsync = "eatmydata"

func (s *Set) dynamodb() backend {
	port := s.layout.Port(platform.DynamoDBPort)
	return backend{
		name: "dynamodb", ports: []int{port}, stop: syscall.SIGTERM, settle: doNothing,
		prepare: func(ctx context.Context) error {
			if _, err := s.jars(ctx, "dynamodb"); err != nil {
				return err
			}
			if _, err := s.apt.Ensure(ctx, noFsync, noFsync); err != nil {
				s.say("DynamoDB Local will wait for the disk at each write: %v", err)
			}
			_, err := s.makeDataFolder("dynamodb")
			return err
		},
		spec: func() (process.Spec, error) {
			jars, err := s.jarFolder("dynamodb")
			if err != nil {
				return process.Spec{}, err
			}
			// DynamoDB Local stores its tables in SQLite, whose native library Maven puts beside the jars.
			// It has one database for each region and access key. With -sharedDb it would have only one,
			// with a single thread for all tests.
			heap, err := maxHeap()
			if err != nil {
				return process.Spec{}, err
			}
			spec, err := s.java("dynamodb", []string{"-Xms64m", heap, "-Dsqlite4java.library.path=" + jars},
				"software.amazon.dynamodb.services.local.main.ServerRunner", "-port", strconv.Itoa(port),
				"-disableTelemetry", "-dbPath", s.layout.State("data", "dynamodb"))
			if _, missing := exec.LookPath(noFsync); missing == nil {
				spec.Env = append(os.Environ(), "LD_PRELOAD=libeatmydata.so")
			}
			return spec, err
		},
		ready: func(ctx context.Context) error { return checkResponds(ctx, s.layout.DynamoDBEndpoint()) },
	}
}

func (s *Set) sqs() backend {
	port := s.layout.Port(platform.SQSPort)
	config := s.layout.State("data", "sqs", "elasticmq.conf")
	return backend{
		name: "sqs", ports: []int{port}, stop: syscall.SIGTERM, settle: doNothing,
		prepare: func(ctx context.Context) error {
			if _, err := s.jars(ctx, "sqs"); err != nil {
				return err
			}
			dir, err := s.makeDataFolder("sqs")
			if err != nil {
				return err
			}
			// Queues and messages are stored on disk, so that a restart loses none, as with SQS.
			text := fmt.Sprintf(`include classpath("application.conf")
node-address { protocol = http, host = "127.0.0.1", port = %[1]d, context-path = "" }
rest-sqs { enabled = true, bind-hostname = "127.0.0.1", bind-port = %[1]d, sqs-limits = strict }
queues-storage { enabled = true, path = "%[2]s/queues.conf" }
messages-storage { enabled = true, uri = "jdbc:h2:%[2]s/messages" }
aws { region = "ap-northeast-2", accountId = "000000000000" }
pekko.loglevel = "WARNING"
`, port, dir)
			return files.Put(config, []byte(text))
		},
		spec: func() (process.Spec, error) {
			return s.java("sqs", []string{"-Xmx192m", "-Dconfig.file=" + config}, "org.elasticmq.server.Main")
		},
		ready: func(ctx context.Context) error { return checkResponds(ctx, s.layout.SQSEndpoint()) },
	}
}

// jvmOptions has options for every Java process. In runs of a few minutes, the optimising compiler
// and the parallel garbage collector would use more processor time than they save. A server whose
// heap is full ends, so that it is restarted and status says why; it would answer with errors.
var jvmOptions = []string{"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:+ExitOnOutOfMemoryError"}

// java returns the command that runs a class from a backend's jars.
func (s *Set) java(name string, options []string, class string, args ...string) (process.Spec, error) {
	path, err := exec.LookPath("java")
	if err != nil {
		return process.Spec{}, fmt.Errorf("find java: %w", err)
	}
	jars, err := s.jarFolder(name)
	if err != nil {
		return process.Spec{}, err
	}
	arguments := slices.Concat([]string{"-cp", filepath.Join(jars, "*")}, jvmOptions, options, []string{class}, args)
	return process.Spec{Path: path, Args: arguments, Dir: s.layout.State("data", name)}, nil
}

// checkResponds returns nil if the server at url sends an HTTP response that is no error of its own.
// DynamoDB Local and ElasticMQ refuse this unsigned request, but the refusal shows that they are
// ready.
func checkResponds(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	if resp.StatusCode >= http.StatusInternalServerError {
		err = fmt.Errorf("%s: %s", url, resp.Status)
	}
	return errors.Join(err, resp.Body.Close())
}

// jars returns the folder with the jars that scripts/backends/<name>.pom.xml lists. If that file
// has changed, Maven downloads them.
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
	// Only one process at a time runs Maven, because all runs in the checkout share the jars, and all
	// Maven processes of the user share a local repository.
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
	if err := s.maven(ctx, mvn, "-f", s.pomFile(name), "dependency:copy-dependencies", "-DoutputDirectory="+partial); err != nil {
		return "", err
	}
	if err := os.Rename(partial, dir); err != nil {
		return "", fmt.Errorf("keep jars: %w", err)
	}
	return dir, nil
}

// maven runs Maven, and a second time if that fails. Maven stops at the first error of an
// overloaded repository, but keeps what it has downloaded.
func (s *Set) maven(ctx context.Context, mvn string, args ...string) error {
	const pause = 5 * time.Second
	run := func() error {
		return apt.RunLogged(exec.CommandContext(ctx, mvn, append([]string{"-q", "-B", "-U"}, args...)...), s.layout.LogFile("maven"))
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

// jarFolder returns a folder whose name depends on the pom's content, so that Maven runs again when
// the pom has changed.
func (s *Set) jarFolder(name string) (string, error) {
	pom, err := os.ReadFile(s.pomFile(name))
	if err != nil {
		return "", fmt.Errorf("read pom: %w", err)
	}
	sum := sha256.Sum256(pom)
	return s.layout.Shared("jars", name+"-"+hex.EncodeToString(sum[:4])), nil
}

func (s *Set) pomFile(name string) string {
	return filepath.Join(s.layout.Root, "scripts", "backends", name+".pom.xml")
}
