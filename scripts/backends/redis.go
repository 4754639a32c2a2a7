package backends

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"urr.guru/pkg/loop"
	"urr.guru/scripts/platform"
	"urr.guru/scripts/process"
)

func (s *Set) redis() backend {
	return s.redisServer("redis", platform.RedisPort, nil)
}

// redisCluster returns three masters without replicas, so that keys are on different nodes. A node that
// a slow machine stops for some seconds must not count as failed.
func (s *Set) redisCluster() []backend {
	nodes := make([]backend, platform.RedisClusterNodes)
	for i := range nodes {
		nodes[i] = s.redisServer(fmt.Sprintf("redis-cluster-%d", i+1), platform.RedisClusterPort+i,
			[]string{"--cluster-enabled", "yes", "--cluster-node-timeout", "60000"})
		nodes[i].forTests = true
		nodes[i].ports = append(nodes[i].ports, busPort(nodes[i].ports[0]))
	}
	nodes[len(nodes)-1].settle = s.joinCluster
	return nodes
}

// busPort returns the port of a node's cluster bus. The default, port + 10,000, can exceed 65535. A
// distance of a multiple of 1,000 could give the port of another checkout's Redis.
func busPort(port int) int { return port - 993 }

func (s *Set) redisServer(name string, basePort int, options []string) backend {
	port := s.layout.Port(basePort)
	return backend{
		name: name, ports: []int{port}, stop: syscall.SIGTERM, settle: doNothing,
		prepare: func(ctx context.Context) error {
			if _, err := s.apt.Ensure(ctx, "redis-server", "redis-server"); err != nil {
				return err
			}
			_, err := s.makeDataFolder(name)
			return err
		},
		spec: func() (process.Spec, error) {
			path, err := exec.LookPath("redis-server")
			if err != nil {
				return process.Spec{}, fmt.Errorf("find redis-server: %w", err)
			}
			dir, err := s.makeDataFolder(name)
			if err != nil {
				return process.Spec{}, err
			}
			args := []string{
				"--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--daemonize", "no", "--dir", dir,
				"--appendonly", "yes", "--save", "", "--maxmemory-policy", "noeviction",
			}
			if options != nil {
				args = append(args, options...)
				args = append(args, "--cluster-port", strconv.Itoa(busPort(port)))
			}
			return process.Spec{Path: path, Args: args, Dir: dir}, nil
		},
		ready: func(ctx context.Context) error {
			client := redis.NewClient(&redis.Options{Addr: s.layout.LoopbackAddr(basePort), MaxRetries: -1})
			defer func() { _ = client.Close() }()
			return client.Ping(ctx).Err()
		},
	}
}

// joinCluster distributes the 16,384 slots over the nodes and joins them to a cluster, unless they
// already form one.
func (s *Set) joinCluster(ctx context.Context) error {
	if s.clusterAgrees(ctx) {
		return nil
	}
	const slots = 16384
	firstPort := s.layout.Port(platform.RedisClusterPort)
	for i, addr := range s.layout.RedisClusterAddrs() {
		node := redis.NewClient(&redis.Options{Addr: addr})
		firstSlot, lastSlot := slots*i/platform.RedisClusterNodes, slots*(i+1)/platform.RedisClusterNodes-1
		err := node.ClusterAddSlotsRange(ctx, firstSlot, lastSlot).Err()
		if err != nil && !strings.Contains(err.Error(), "already busy") {
			return errors.Join(fmt.Errorf("give slots: %w", err), node.Close())
		}
		err = node.Do(ctx, "cluster", "meet", "127.0.0.1", firstPort, busPort(firstPort)).Err()
		if err := errors.Join(err, node.Close()); err != nil {
			return fmt.Errorf("meet: %w", err)
		}
	}
	for !s.clusterAgrees(ctx) {
		if !loop.Sleep(ctx, 100*time.Millisecond) {
			return fmt.Errorf("the cluster's nodes do not agree: %w", ctx.Err())
		}
	}
	return nil
}

// clusterAgrees reports whether every node knows all other nodes, and knows a node for every slot.
func (s *Set) clusterAgrees(ctx context.Context) bool {
	wantKnown := fmt.Sprintf("cluster_known_nodes:%d\r", platform.RedisClusterNodes)
	for _, addr := range s.layout.RedisClusterAddrs() {
		node := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1})
		info, err := node.ClusterInfo(ctx).Result()
		if errors.Join(err, node.Close()) != nil ||
			!strings.Contains(info, "cluster_state:ok") || !strings.Contains(info, wantKnown) {
			return false
		}
	}
	return true
}
