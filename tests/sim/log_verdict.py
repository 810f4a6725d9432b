"""Exhaustive model of the log's verdict after a crash (docs/format/wal.md).

One record a block, N blocks. lives() walks every order in which records are published, submitted (at most QD in flight) and completed,
and at every point crashes with each subset of the writes in flight on disk. replay() then judges the image by one of three rules:
  design   a bad record with valid ones behind it is corruption       (wrong: refuses plain crashes from depth 2 on)
  lenient  the first bad record ends the log                          (wrong: loses damaged acknowledged records silently)
  mark     records carry the durable LSN known when published; damage below the largest mark is corruption, above it the log is cut
The second part appends over what was discarded and crashes again: with the same salt old records come back, with a cut record they don't.
Run: python3 log_verdict.py (seconds).
"""
import itertools
N=7                                     # one record a block; block = (salt, lsn, mark, id) | ('CUT', old salt, lsn, new salt, mark) | None
def lives(img,start,salt,recs,QD,ids):  # all (image, acknowledged ids) at a crash: publish, submit <= QD, complete in any order, keep or drop what is in flight
    out=set(); seen=set()
    def go(img,pub,infl,done,dur):
        k=(img,pub,infl,done,dur)
        if k in seen: return
        seen.add(k)
        for r in range(len(infl)+1):
            for keep in itertools.combinations(infl,r):
                im=list(img)
                for p,b in keep: im[p]=b
                out.add((tuple(im),tuple(ids[:dur-start])))
        if pub<start+recs and pub<N and len(infl)<QD:
            go(img,pub+1,infl+((pub,(salt,pub,dur,ids[pub-start])),),done,dur)
        for p,b in infl:
            im=list(img); im[p]=b; d=done|{p}; dd=dur
            while dd in d: dd+=1
            go(tuple(im),pub,tuple(x for x in infl if x[0]!=p),frozenset(d),dd)
    go(img,start,(),frozenset(),start); return out
def replay(img,salt,rule):
    p=0; ids=[]; H=0
    while p<N:
        b=img[p]
        if b and b[0]==salt and b[1]==p: ids.append(b[3]); H=max(H,b[2]); p+=1
        elif rule=='cut' and b and b[0]=='CUT' and b[1]==salt and b[2]==p: salt=b[3]; p+=1
        else: break
    later=[b for b in img[p:] if b and b[0]==salt]
    H=max([H]+[b[2] for b in later]+([b[4] for b in img[p:] if b and b[0]=='CUT' and b[1]==salt] if rule=='cut' else []))
    bad = bool(later) if rule=='design' else False if rule=='lenient' else p<H
    return bad,tuple(ids),p,salt
for QD in (1,2,3):
    L=lives((None,)*N,0,'s0',4,QD,list('abcd'))
    for rule in ('design','lenient','mark'):
        refused=sum(replay(i,'s0',rule)[0] for i,a in L); cases=silent=unmarked=0
        for i,a in L:
            for k in range(len(a)):
                d=list(i); d[k]=('bad',); cases+=1
                if not replay(tuple(d),'s0',rule)[0]:
                    silent+=1; unmarked+=max([b[2] for b in i if b],default=0)<=k
        print(QD,rule,'states',len(L),'refused',refused,'| damaged',cases,'silently cut',silent,'of them unmarked',unmarked)
for how in ('same salt','cut record'):
    n=ghosts=lost=0; rule='mark' if how=='same salt' else 'cut'
    for i,a in lives((None,)*N,0,'s0',4,3,list('abcd')):
        _,ids,p,s=replay(i,'s0',rule); st,sl=p,s
        if rule=='cut': i=i[:p]+(('CUT',s,p,'s1',p),)+i[p+1:]; st,sl=p+1,'s1'
        for j,a2 in lives(i,st,sl,2,2,list('XY')):
            bad,ids3,_,_=replay(j,'s0',rule); n+=1
            ghosts+=any(x in 'abcd' and x not in ids for x in ids3); lost+=bad or ids3[:len(ids)]!=ids or ids3[len(ids):len(ids)+len(a2)]!=a2
    print(how,'states',n,'ghosts',ghosts,'lost or refused',lost)
